//! A tar stream that is copied in: `put WORKSPACE - DEST`.
//!
//! It is read once, entry by entry, and trusted in nothing: a name that leaves, a link that does, an entry behind a link, a
//! name that comes twice, anything but files, directories and symbolic links, and a stream that ends too early end the
//! batch, and nothing lands. Hard links are refused rather than guessed at.
mod header;
#[cfg(test)]
mod tests;

use crate::failure::{cancelled, told};
use crate::ignore::Ignore;
use crate::inputs::{check_depth, leaves, stays_inside};
use crate::ledger::{Delivery, Ledger, Room};
use crate::text::printable;
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::provider::{EntryKind, EntrySource};
use core::cell::RefCell;
use core::error::Error;
use header::{BLOCK, Extended, Header, Kind, padding};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::rc::Rc;

/// How the names of an archive's files begin on record, where a host path stands otherwise.
const SOURCE: &[u8] = b"-:";

/// The longest header of an entry's further facts, such as a long name: a name has at most 4 KiB.
const EXTENDED_BYTES_MAX: u64 = 1 << 20;

/// How much may follow the end of an archive: zeros, up to the record size that its writer used (tar's is 10 KiB).
const TRAILER_BYTES_MAX: u64 = 16 << 20;

/// What is known of a name of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// A directory that only follows from the names below it.
    Implied,
    /// A directory with an entry of its own.
    Directory,
    /// A file or a link, behind which nothing can lie.
    Leaf,
}

/// An archive on its way in.
struct Archive {
    stream: Rc<RefCell<Stream>>,
    destination: Option<WsPath>,
    ignore: Option<Ignore>,
    ledger: Ledger,
    names: BTreeMap<Vec<u8>, Named>,
    /// Bytes that the entries so far have announced.
    announced: u64,
    /// The destination's own directory has been delivered.
    begun: bool,
    ended: bool,
}

/// Returns what a provider copies from.
pub(crate) fn deliver(
    reader: Box<dyn Read>,
    destination: Option<WsPath>,
    ignore: Option<Ignore>,
    room: Room,
) -> Delivery {
    let ledger = Ledger::new(room);
    let archive = Archive {
        stream: Rc::new(RefCell::new(Stream { reader, left: 0, padding: 0 })),
        destination,
        ignore,
        ledger: ledger.clone(),
        names: BTreeMap::new(),
        announced: 0,
        begun: false,
        ended: false,
    };
    Delivery { entries: Box::new(archive), ledger }
}

impl Iterator for Archive {
    type Item = Box<dyn EntrySource>;

    /// A batch that must not land ends here; the ledger knows why, and the gate refuses.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if !self.begun {
            self.begun = true;
            if let Some(destination) = self.destination.clone() {
                return Some(self.member(destination, EntryKind::Directory, Vec::new()));
            }
        }
        match self.advance() {
            Ok(Some(member)) => Some(member),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(failure) => {
                self.ended = true;
                self.ledger.refuse(failure);
                None
            }
        }
    }
}

impl Archive {
    /// Returns the next entry that is copied.
    fn advance(&mut self) -> Result<Option<Box<dyn EntrySource>>, Failure> {
        loop {
            let Some(header) = self.header()? else {
                let is_empty = self.names.is_empty();
                return if is_empty { Err(malformed("it holds nothing")) } else { Ok(None) };
            };
            if let Some(member) = self.accept(&header)? {
                return Ok(Some(member));
            }
        }
    }

    /// Reads up to the next entry's header, and takes what extends it in; `None` at the end.
    fn header(&mut self) -> Result<Option<Header>, Failure> {
        let mut stream = self.stream.borrow_mut();
        let mut extended = Extended::default();
        loop {
            stream.skip()?;
            let Some(header) = Header::parse(&stream.block()?).map_err(malformed)? else {
                stream.finish()?;
                return Ok(None);
            };
            let Some(kind) = header.extends() else {
                return header.with(extended).map(Some).map_err(malformed);
            };
            if header.size > EXTENDED_BYTES_MAX {
                return Err(malformed("the facts about an entry are too long"));
            }
            stream.begin(header.size);
            let body = stream.rest()?;
            extended.take(kind, &body).map_err(malformed)?;
        }
    }

    /// Judges an entry; `None` where it is left out.
    fn accept(&mut self, header: &Header) -> Result<Option<Box<dyn EntrySource>>, Failure> {
        let shown = printable(&header.name);
        let Some(below) = inside(&header.name)? else {
            // The archive's root, as in `tar -c .`; its destination is there already.
            return if header.kind == Kind::Directory { Ok(None) } else { Err(bad_name(&shown)) };
        };
        let kind = kind_of(header, &below)?;
        let is_directory = kind == EntryKind::Directory;
        let ignore = self.ignore.as_ref();
        if ignore.is_some_and(|ignore| ignore.covers_or_parent(below.as_bytes(), is_directory)) {
            self.ledger.ignore();
            self.stream.borrow_mut().begin(header.size);
            return Ok(None);
        }
        if header.size > 0 && !matches!(kind, EntryKind::File { .. }) {
            return Err(malformed(&format!("`{shown}` is no file and has a size")));
        }
        self.name(&below, is_directory)?;
        self.announced = self.announced.saturating_add(header.size);
        self.ledger.room().check(self.announced, self.names.len() as u64)?;
        let destination = match &self.destination {
            Some(above) => above.join(below.as_bytes()).map_err(|_| bad_name(&shown))?,
            None => below,
        };
        check_depth(&destination)?;
        self.stream.borrow_mut().begin(header.size);
        Ok(Some(self.member(destination, kind, header.name.clone())))
    }

    /// Takes a name, and those of the directories that it lies in.
    fn name(&mut self, below: &WsPath, is_directory: bool) -> Result<(), Failure> {
        let path = below.as_bytes();
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let parent = self.names.entry(path[..at].to_vec()).or_insert(Named::Implied);
            if *parent == Named::Leaf {
                let (shown, leaf) = (printable(path), printable(&path[..at]));
                return Err(refused(&format!(
                    "`{shown}` lies behind `{leaf}`, which is no directory"
                )));
            }
        }
        let own = if is_directory { Named::Directory } else { Named::Leaf };
        match self.names.insert(path.to_vec(), own) {
            None => Ok(()),
            Some(Named::Implied) if is_directory => Ok(()),
            Some(_) => Err(refused(&format!("`{}` comes twice", printable(path)))),
        }
    }

    fn member(&self, destination: WsPath, kind: EntryKind, name: Vec<u8>) -> Box<dyn EntrySource> {
        match kind {
            EntryKind::Directory => self.ledger.directory(),
            EntryKind::Link { .. } => self.ledger.link(),
            EntryKind::File { .. } => {}
        }
        Box::new(Member {
            stream: Rc::clone(&self.stream),
            ledger: self.ledger.clone(),
            hasher: Sha256::new(),
            size_bytes: 0,
            destination,
            kind,
            name,
        })
    }
}

/// Returns the place of a name below the archive's root; `None` for the root itself.
fn inside(name: &[u8]) -> Result<Option<WsPath>, Failure> {
    if !name.is_empty()
        && name.split(|byte| *byte == b'/').all(|part| part.is_empty() || part == b".")
    {
        return if name[0] == b'/' { Err(bad_name(&printable(name))) } else { Ok(None) };
    }
    WsPath::parse(name).map(Some).map_err(|_| bad_name(&printable(name)))
}

fn kind_of(header: &Header, below: &WsPath) -> Result<EntryKind, Failure> {
    let shown = printable(&header.name);
    match header.kind {
        Kind::File => Ok(EntryKind::File { mode: header.mode, mtime: header.mtime }),
        Kind::Directory => Ok(EntryKind::Directory),
        Kind::Link if stays_inside(below.as_bytes(), &header.target) => {
            Ok(EntryKind::Link { target: ByteString::from(header.target.clone()) })
        }
        Kind::Link => Err(leaves(&header.name, &header.target)),
        Kind::HardLink => Err(Failure::user(
            "archive_refused",
            format!(
                "the archive's `{shown}` is a hard link, which is not copied in; nothing landed"
            ),
            "write the archive with tar --hard-dereference",
        )),
        Kind::Other(byte) => Err(refused(&format!(
            "`{shown}` is of type `{}`: neither a file nor a directory nor a symbolic link",
            byte.escape_ascii()
        ))),
    }
}

fn bad_name(shown: &str) -> Failure {
    refused(&format!("`{shown}` is no name below a directory"))
}

fn refused(what: &str) -> Failure {
    Failure::user(
        "archive_refused",
        format!("the archive's {what}; nothing landed"),
        "write the archive from inside one directory: tar -c -C DIR . | bailiwick put WORKSPACE - DEST",
    )
}

fn malformed(what: &str) -> Failure {
    Failure::user(
        "bad_archive",
        format!("standard input is no tar archive that can be read: {what}; nothing landed"),
        "pass an uncompressed tar stream, whole: tar -c -C DIR . | bailiwick put WORKSPACE - DEST",
    )
}

/// The stream, and how much of the current entry is left in it.
struct Stream {
    reader: Box<dyn Read>,
    left: u64,
    padding: u64,
}

impl Stream {
    /// Begins the contents of an entry.
    fn begin(&mut self, size: u64) {
        (self.left, self.padding) = (size, padding(size));
    }

    /// Reads some of the current entry; 0 at its end.
    fn pull(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = self.some(&mut buffer[..most])?;
        if read == 0 {
            return Err(malformed("it ends in the middle of a file"));
        }
        self.left -= read as u64;
        Ok(read)
    }

    /// Reads the rest of the current entry, whose size was checked.
    fn rest(&mut self) -> Result<Vec<u8>, Failure> {
        let (mut body, mut chunk) = (Vec::new(), [0; 4_096]);
        loop {
            match self.pull(&mut chunk)? {
                0 => return Ok(body),
                read => body.extend_from_slice(&chunk[..read]),
            }
        }
    }

    /// Goes on to the next header.
    fn skip(&mut self) -> Result<(), Failure> {
        let mut chunk = vec![0; 64 << 10];
        while self.pull(&mut chunk)? > 0 {}
        (self.left, self.padding) = (core::mem::take(&mut self.padding), 0);
        while self.pull(&mut chunk)? > 0 {}
        Ok(())
    }

    fn block(&mut self) -> Result<[u8; BLOCK], Failure> {
        let (mut block, mut filled) = ([0; BLOCK], 0);
        while filled < BLOCK {
            match self.some(&mut block[filled..])? {
                0 => return Err(malformed("it ends without its end mark")),
                read => filled += read,
            }
        }
        Ok(block)
    }

    /// Reads what follows the end mark, so that whoever writes the stream can end.
    fn finish(&mut self) -> Result<(), Failure> {
        let (mut chunk, mut left) = (vec![0; 64 << 10], TRAILER_BYTES_MAX);
        loop {
            let read = self.some(&mut chunk)?;
            if read == 0 {
                return Ok(());
            }
            if chunk[..read].iter().any(|byte| *byte != 0) {
                return Err(malformed("something follows its end"));
            }
            left = left
                .checked_sub(read as u64)
                .ok_or_else(|| malformed("too much follows its end"))?;
        }
    }

    fn some(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        self.reader.read(buffer).map_err(|error| match error.kind() {
            // Only a signal that is handled interrupts, and those that are mean the end.
            ErrorKind::Interrupted => cancelled(),
            _ => Failure::environment(
                "input_unreadable",
                format!("standard input cannot be read: {}", told(&error)),
                "pipe a tar stream into the command",
            ),
        })
    }
}

/// One entry as a provider copies it.
struct Member {
    stream: Rc<RefCell<Stream>>,
    ledger: Ledger,
    hasher: Sha256,
    size_bytes: u64,
    destination: WsPath,
    kind: EntryKind,
    name: Vec<u8>,
}

impl EntrySource for Member {
    fn destination(&self) -> &WsPath {
        &self.destination
    }

    fn kind(&self) -> EntryKind {
        self.kind.clone()
    }

    fn pull(&mut self, buffer: &mut [u8]) -> Result<usize, Box<dyn Error + Send + Sync>> {
        if !matches!(self.kind, EntryKind::File { .. }) {
            return Ok(0);
        }
        let read = self.stream.borrow_mut().pull(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.size_bytes += read as u64;
        if read == 0 {
            let source = ByteString::from([SOURCE, self.name.as_slice()].concat());
            let digest = Digest::new(self.hasher.finalize_reset().into());
            self.ledger.file(source, self.destination.clone(), self.size_bytes, digest);
        } else {
            self.ledger.take(read)?;
        }
        Ok(read)
    }
}
