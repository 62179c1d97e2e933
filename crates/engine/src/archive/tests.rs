//! Archives, most of them hostile, that are read as a provider reads them.
use super::*;
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::time::Timestamp;
use std::io::Cursor;

const ROOM: Room = Room { bytes: 1 << 20, entries: 100 };

/// A header as a writer makes it; the checksum is right.
fn header(name: &[u8], flag: u8, size: &[u8], target: &[u8]) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..name.len()].copy_from_slice(name);
    block[100..107].copy_from_slice(b"0000755");
    block[124..124 + size.len()].copy_from_slice(size);
    block[136..147].copy_from_slice(b"00000001750");
    block[156] = flag;
    block[157..157 + target.len()].copy_from_slice(target);
    block[257..263].copy_from_slice(b"ustar\0");
    sealed(block)
}

fn sealed(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

fn entry(name: &[u8], flag: u8, contents: &[u8]) -> Vec<u8> {
    let size = format!("{:011o}", contents.len());
    let mut bytes = header(name, flag, size.as_bytes(), b"");
    bytes.extend_from_slice(contents);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

fn file(name: &str, contents: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'0', contents.as_bytes())
}

fn directory(name: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'5', b"")
}

fn link(name: &str, target: &str) -> Vec<u8> {
    header(name.as_bytes(), b'2', b"0", target.as_bytes())
}

fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in records {
        let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
        // The length counts its own digits.
        let length = (1..).find(|n: &usize| *n == rest.len() + n.to_string().len()).expect("one");
        body.extend([length.to_string().as_bytes(), &rest].concat());
    }
    entry(b"pax", b'x', &body)
}

const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// What a provider would write: destination, and contents or what it is.
fn read_within(bytes: Vec<u8>, room: Room) -> Result<(Vec<(String, String)>, Ledger), Failure> {
    let destination = WsPath::parse(b"to").ok();
    let Delivery { entries, ledger } =
        deliver(Box::new(Cursor::new(bytes)), destination, None, room);
    let mut found = Vec::new();
    for mut entry in entries {
        let (mut contents, mut chunk) = (Vec::new(), [0; 7]);
        loop {
            match entry.pull(&mut chunk).map_err(|error| *error.downcast().expect("ours"))? {
                0 => break,
                read => contents.extend_from_slice(&chunk[..read]),
            }
        }
        let shown = match entry.kind() {
            EntryKind::File { mode, mtime } => format!("{mode:o} {mtime} {}", printable(&contents)),
            EntryKind::Directory => "/".into(),
            EntryKind::Link { target } => format!("-> {}", printable(target.as_bytes())),
        };
        found.push((printable(entry.destination().as_bytes()), shown));
    }
    ledger.check().map(|()| (found, ledger))
}

fn read(parts: &[Vec<u8>]) -> Result<(Vec<(String, String)>, Ledger), Failure> {
    read_within([parts.concat().as_slice(), &END].concat(), ROOM)
}

#[track_caller]
fn refused(parts: &[Vec<u8>], needle: &str) {
    let failure = read(parts).expect_err(needle);
    assert_eq!(failure.code, ExitCode::UserError, "{failure}");
    assert!(failure.message.contains(needle), "{failure}");
}

#[test]
fn files_directories_and_links_inside_are_delivered_in_order() {
    let parts = [
        directory("./"),
        directory("./d/"),
        file("./d/f", "hello"),
        link("./d/l", "../d/f"),
        file("empty", ""),
        entry(b"old/", 0, b""),
        file("implied/x", "y"),
        directory("implied"),
    ];
    let (found, ledger) = read(&parts).expect("a good archive");
    let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let wanted = [
        ("to", "/"),
        ("to/d", "/"),
        ("to/d/f", "755 1000 hello"),
        ("to/d/l", "-> ../d/f"),
        ("to/empty", "755 1000 "),
        ("to/old", "/"),
        ("to/implied/x", "755 1000 y"),
        ("to/implied", "/"),
    ];
    assert_eq!(found, wanted);
    let records = ledger.records(Timestamp::default(), None);
    assert_eq!(records[0].source.as_bytes(), b"-:./d/f");
    assert_eq!(records[0].sha256, Digest::new(Sha256::digest(b"hello").into()));
    assert_eq!((records.len(), ledger.bytes()), (3, 6));
}

#[test]
fn long_names_odd_bytes_and_large_numbers_are_read() {
    let long = format!("{}/f", vec!["d".repeat(60); 3].join("/"));
    let parts = [
        pax(&[("path", long.as_bytes()), ("mtime", b"-5.25"), ("comment", b"a=b\nc")]),
        file("short", "1"),
        entry(b"././@LongLink", b'L', &[b"n".repeat(200).as_slice(), b"\0"].concat()),
        file("short", "2"),
        entry(b"\xff\xfe", b'0', b"3"),
        pax(&[("linkpath", "t".repeat(120).as_bytes())]),
        link("l", "short"),
        pax(&[("size", b"2")]),
        [header(b"sized", b'0', b"77777777777", b""), [b"ok", &[0; 510][..]].concat()].concat(),
        entry(b"global", b'g', b"20 comment=whatever\n"),
    ];
    let (found, _) = read(&parts).expect("a good archive");
    assert_eq!(found[1], (format!("to/{long}"), "755 -5 1".to_owned()));
    assert_eq!(found[2].0, format!("to/{}", "n".repeat(200)));
    assert_eq!(found[3].0, "to/\\xff\\xfe");
    assert_eq!(found[4].1, format!("-> {}", "t".repeat(120)));
    assert_eq!(found[5], ("to/sized".to_owned(), "755 1000 ok".to_owned()));
    let mut base256 = header(b"big", b'0', b"", b"");
    base256[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    let (found, _) = read(&[sealed(base256), [b"abc", &[0; 509][..]].concat()]).expect("good");
    assert_eq!(found[1].1, "755 1000 abc");
}

#[test]
fn the_name_that_counts_tells_an_old_directory_from_a_file() {
    let (long, cut) = (format!("{}/f", "d".repeat(99)), format!("{}/", "d".repeat(99)));
    for flag in [0, b'0', b'7'] {
        for named in [pax(&[("path", long.as_bytes())]), entry(b"l", b'L', long.as_bytes())] {
            let (found, _) = read(&[named, entry(cut.as_bytes(), flag, b"x")]).expect("good");
            assert_eq!(found[1..], [(format!("to/{long}"), "755 1000 x".to_owned())]);
        }
        let named = pax(&[("path", b"folder/")]);
        let (found, _) = read(&[named, entry(b"cut", flag, b"")]).expect("good");
        assert_eq!(found[1..], [("to/folder".to_owned(), "/".to_owned())]);
    }
}

#[test]
fn what_leaves_or_hides_behind_a_link_is_refused() {
    for name in ["../x", "a/../../x", "/etc/passwd", "a/..", "/"] {
        refused(&[file(name, "x")], "is no name below a directory");
        refused(&[pax(&[("path", name.as_bytes())]), file("x", "x")], "no name below a directory");
    }
    refused(&[pax(&[("path", b"a\0b")]), file("x", "x")], "is no name below a directory");
    refused(&[file("", "x")], "is no name below a directory");
    for target in ["/etc", "..", "a/../../b", ""] {
        refused(&[link("l", target)], "is not inside what is copied");
    }
    refused(&[link("l", "d"), file("l/f", "x")], "lies behind `l`, which is no directory");
    refused(&[file("f", "x"), file("f/g/h", "x")], "lies behind `f`");
    refused(&[link("l", "d"), directory("l")], "comes twice");
    refused(&[file("d/f", "x"), link("d", "e")], "comes twice");
    refused(&[file("f", "x"), file("./f", "y")], "comes twice");
    refused(&[directory("d"), directory("d/")], "comes twice");
}

#[test]
fn only_files_directories_and_symbolic_links_are_taken() {
    refused(&[file("a", "x"), header(b"b", b'1', b"0", b"a")], "is a hard link");
    for flag in [b'3', b'4', b'6', b'S', b'M', b'V', b'D', b'Z'] {
        refused(&[header(b"odd", flag, b"0", b"")], "neither a file nor a directory");
    }
    refused(&[pax(&[("GNU.sparse.major", b"1")]), file("x", "x")], "sparse");
    refused(&[entry(b"g", b'g', b"10 path=x\n"), file("x", "x")], "all entries share");
    refused(&[entry(b"d", b'5', b"contents")], "is no file and has a size");
}

#[test]
fn a_stream_that_lies_or_ends_early_is_refused() {
    let whole = [file("a", "hello"), END.to_vec()].concat();
    for length in 0..whole.len() - BLOCK {
        let failure = read_within(whole[..length].to_vec(), ROOM).expect_err("cut");
        assert_eq!(failure.reason, "bad_archive", "{length}: {failure}");
    }
    refused(&[], "it holds nothing");
    // 512 bytes are announced, and the end mark is taken for them.
    let longer = [header(b"a", b'0', b"00000001000", b""), vec![0; BLOCK]].concat();
    assert_eq!(read_within(longer, ROOM).expect_err("no end").reason, "bad_archive");
}

#[test]
fn odd_headers_and_endings_are_refused() {
    let mut wrong = file("a", "x");
    wrong[0] = b'b';
    refused(&[wrong], "a header's checksum is wrong");
    refused(&[b"#!/bin/sh\n".repeat(100)], "a header's checksum is wrong");
    refused(&[header(b"a", b'0', b"9", b"")], "no number where one belongs");
    let mut negative = header(b"a", b'0', b"", b"");
    negative[124..136].fill(0xff);
    refused(&[sealed(negative)], "a size is negative");
    let mut vast = header(b"a", b'0', b"", b"");
    vast[124..136].copy_from_slice(&[0xbf; 12]);
    refused(&[sealed(vast)], "a number is too large");
    for record in [&b"6 x=\n"[..], b"99 path=x\n", b"path=x\n", b"0 \n", b"-1 a=b\n"] {
        refused(&[entry(b"p", b'x', record), file("a", "x")], "a pax record is malformed");
    }
    refused(&[pax(&[("size", b"-1")]), file("a", "x")], "a pax size is no number");
    refused(&[file("a", "x"), vec![0; BLOCK], file("b", "x")], "something follows its end");
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_read() {
    let check = |parts: &[Vec<u8>], room| {
        let bytes = [parts.concat().as_slice(), &END].concat();
        let failure = read_within(bytes, room).expect_err("too much");
        assert_eq!((failure.code, failure.reason), (ExitCode::PolicyDenied, "inputs_over_storage"));
    };
    // Eight gigabytes less one are announced, and nothing follows.
    check(&[header(b"a", b'0', b"77777777777", b"")], ROOM);
    check(&[pax(&[("size", b"18446744073709551615")]), file("a", "")], ROOM);
    check(&[file("a", "1234"), file("b", "56")], Room { bytes: 5, ..ROOM });
    check(&[file("a/b/c", "")], Room { entries: 2, ..ROOM });
    refused(&[header(b"p", b'x', b"77777777777", b"")], "the facts about an entry are too long");
    let deep = vec!["d"; 300].join("/");
    let parts = [pax(&[("path", deep.as_bytes())]), file("x", "")].concat();
    let bytes = [parts.as_slice(), &END].concat();
    let failure = read_within(bytes, Room { entries: 1_000, ..ROOM }).expect_err("deep");
    assert_eq!(failure.reason, "input_too_deep");
}

proptest::proptest! {
    /// Whatever the bytes are, reading them ends, and nothing is delivered outside the destination.
    #[test]
    fn no_header_leads_out(
        changes in proptest::collection::vec((0_usize..4 * BLOCK, proptest::prelude::any::<u8>()), 0..12),
    ) {
        let parts = [pax(&[("path", b"d/long")]), file("short", "contents"), link("l", "d/long")];
        let mut bytes = parts.concat();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        // A right checksum lets the changes through to what is behind it.
        let blocks: Vec<u8> = bytes
            .chunks(BLOCK)
            .enumerate()
            .flat_map(|(at, block)| if at % 2 == 0 { sealed(block.to_vec()) } else { block.to_vec() })
            .collect();
        if let Ok((found, ledger)) = read_within([blocks.as_slice(), &END].concat(), ROOM) {
            for (path, _) in &found {
                proptest::prop_assert!(path == "to" || path.starts_with("to/"), "{path}");
            }
            proptest::prop_assert!(ledger.bytes() <= ROOM.bytes);
        }
    }
}
