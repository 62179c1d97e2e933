//! Frames between a caller and a supervisor, however a socket cuts them.
use bailiwick_contract::job::{
    Basis, Encoding, JobOutcome, JobStatus, OutputFacts, QuotaEvent, Reason, Usage,
};
use bailiwick_contract::policy::Limit;
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::wire::{
    FRAME_BYTES_MAX, Frame, FrameReader, Reply, Request, send, send_with,
};
use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A socket whose second end does not block.
fn sockets() -> (UnixStream, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("sockets");
    rustix::io::ioctl_fionbio(&other, true).expect("not blocking");
    (one.into(), other)
}

/// The bytes of one frame.
fn frame(request: &Request) -> Vec<u8> {
    let (one, other) = sockets();
    send(other.as_fd(), request).expect("sent");
    drop(other);
    let mut bytes = Vec::new();
    (&one).read_to_end(&mut bytes).expect("read");
    bytes
}

fn grace(frame: &Frame<Request>) -> Option<u64> {
    match frame {
        Frame::Message(Request::Stop { grace_ms }) => Some(*grace_ms),
        _ => None,
    }
}

#[test]
fn a_frame_may_be_cut_at_every_byte() {
    let bytes = [1_u64, 300, u64::MAX].map(|grace_ms| frame(&Request::Stop { grace_ms })).concat();
    for cut in 0..=bytes.len() {
        let (mut writer, reader_end) = sockets();
        let mut reader = FrameReader::default();
        let mut seen = Vec::new();
        for piece in [&bytes[..cut], &bytes[cut..]] {
            writer.write_all(piece).expect("written");
            while let Some(found) = grace(&reader.next(reader_end.as_fd()).expect("read")) {
                seen.push(found);
            }
        }
        assert_eq!(seen, [1, 300, u64::MAX], "cut at {cut}");
    }
}

#[test]
fn an_end_inside_a_frame_is_an_end() {
    let bytes = frame(&Request::Stop { grace_ms: 300 });
    for cut in 0..bytes.len() {
        let (mut writer, reader_end) = sockets();
        writer.write_all(&bytes[..cut]).expect("written");
        let mut reader = FrameReader::default();
        let pending = reader.next::<Request>(reader_end.as_fd()).expect("read");
        assert!(matches!(pending, Frame::Pending), "cut at {cut}");
        drop(writer);
        let ended = reader.next::<Request>(reader_end.as_fd()).expect("read");
        assert!(matches!(ended, Frame::Closed), "cut at {cut}");
    }
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_its_bytes_are_there() {
    for length in [u32::try_from(FRAME_BYTES_MAX + 1).expect("small"), u32::MAX] {
        let (mut writer, reader_end) = sockets();
        writer.write_all(&length.to_le_bytes()).expect("written");
        let refused = FrameReader::default().next::<Request>(reader_end.as_fd());
        assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::InvalidData);
    }
}

#[test]
fn a_message_beyond_the_limit_is_not_sent() {
    let (writer, mut reader_end) = sockets();
    let detail = "x".repeat(FRAME_BYTES_MAX + 1);
    send(writer.as_fd(), &Reply::SetupFailed { detail }).expect_err("refused");
    let mut byte = [0];
    let read = rustix::io::read(&mut reader_end, &mut byte);
    assert_eq!(read.expect_err("nothing came"), rustix::io::Errno::WOULDBLOCK);
}

#[test]
fn descriptors_come_along_with_their_frame() {
    let (writer, reader_end) = sockets();
    let (mut pipe_reader, pipe_writer) = io::pipe().expect("a pipe");
    let (other_reader, _other_writer) = io::pipe().expect("a pipe");
    let descriptors = [pipe_writer.as_fd(), other_reader.as_fd()];
    send_with(writer.as_fd(), &Request::Go { alone: false }, &descriptors).expect("sent");
    drop(pipe_writer);
    let mut reader = FrameReader::default();
    let message = reader.next::<Request>(reader_end.as_fd()).expect("read");
    assert!(matches!(message, Frame::Message(Request::Go { alone: false })));
    let received = reader.take_descriptors();
    assert_eq!(received.len(), 2);
    assert!(reader.take_descriptors().is_empty(), "they are taken once");
    rustix::io::write(&received[0], b"held").expect("the same pipe");
    // The pipe ends with the received descriptor, so nobody else has it.
    drop(received);
    let mut text = String::new();
    pipe_reader.read_to_string(&mut text).expect("read");
    assert_eq!(text, "held");
}

fn outcomes() -> impl Strategy<Value = JobOutcome> {
    let status = prop::sample::select(vec![
        JobStatus::Success,
        JobStatus::Failure,
        JobStatus::Cancelled,
        JobStatus::Timeout,
        JobStatus::InfrastructureFailure,
        JobStatus::ResourceExhausted,
    ]);
    let reason = prop::sample::select(vec![
        None,
        Some(Reason::Memory),
        Some(Reason::SupervisorLost),
        Some(Reason::NeverStarted),
    ]);
    let numbers = prop::array::uniform6(any::<u64>());
    (status, reason, any::<Option<i32>>(), any::<Option<String>>(), numbers).prop_map(
        |(status, reason, exit_status, detail, numbers)| JobOutcome {
            status,
            exit_status,
            signal: exit_status.map(|code| code / 2),
            reason,
            detail: detail.clone(),
            started_at: Timestamp::from_micros(numbers[0]),
            finished_at: Timestamp::from_micros(numbers[1]),
            usage: Usage {
                wall_time_us: numbers[2],
                cpu_us: numbers[3],
                cpu_basis: Basis::Wait4,
                memory_bytes_max: numbers[4],
                memory_basis: Basis::Watch,
                ..Usage::default()
            },
            output: OutputFacts {
                bytes: numbers[5],
                encoding: Encoding::Binary,
                ..OutputFacts::default()
            },
            checks: Vec::new(),
            measurements: Vec::new(),
            quota_events: detail
                .map(|detail| QuotaEvent { limit: Limit::Pids, count: numbers[0], detail })
                .into_iter()
                .collect(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_outcome_survives_its_frame_and_its_file(outcome in outcomes()) {
        let (writer, reader_end) = sockets();
        send(writer.as_fd(), &Reply::Ended(Box::new(outcome.clone()))).expect("sent");
        let frame = FrameReader::default().next::<Reply>(reader_end.as_fd()).expect("read");
        let Frame::Message(Reply::Ended(received)) = frame else { panic!("{frame:?}") };
        prop_assert_eq!(&*received, &outcome);
        let json = serde_json::to_vec(&outcome).expect("serializes");
        prop_assert_eq!(serde_json::from_slice::<JobOutcome>(&json).expect("parses"), outcome);
    }

    #[test]
    fn garbage_is_refused_or_waits_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (mut writer, reader_end) = sockets();
        let length = u32::try_from(bytes.len()).expect("small");
        writer.write_all(&length.to_le_bytes()).expect("written");
        writer.write_all(&bytes).expect("written");
        drop(writer);
        let mut reader = FrameReader::default();
        while let Ok(Frame::Message(_)) = reader.next::<Request>(reader_end.as_fd()) {}
        let (mut writer, reader_end) = sockets();
        writer.write_all(&bytes).expect("written");
        drop(writer);
        let mut reader = FrameReader::default();
        while let Ok(Frame::Message(_)) = reader.next::<Reply>(reader_end.as_fd()) {}
    }
}
