//! Opens what a job reads from standard input, as whoever asked for the job.
//!
//! The descriptor goes to the supervisor, which copies from it; the job never has it. What could only be opened for good or ill
//! by trying, such as a device, is refused before anything is made.
use super::trouble;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::job::Stdin;
use bailiwick_contract::provider::ProviderError;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, stat};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Opens it; `None` where the job reads nothing.
pub(crate) fn open(stdin: &Stdin) -> Result<Option<OwnedFd>, ProviderError> {
    match stdin {
        Stdin::Empty => Ok(None),
        Stdin::File(path) => open_file(path).map(Some),
        Stdin::Caller => {
            let own = io::stdin().as_fd().try_clone_to_owned();
            let refuse = |error: io::Error| refused("-".into(), error.to_string());
            own.map(Some).map_err(refuse)
        }
    }
}

/// Without blocking: a FIFO has no writer yet. Until it has one, nothing is there to be read, and the job waits for it.
fn open_file(path: &ByteString) -> Result<OwnedFd, ProviderError> {
    let name = trouble::printable(trouble::os(path.as_bytes()));
    let refuse = |why: String| refused(name.clone(), why);
    let is_wrong = |kind| !matches!(kind, FileType::RegularFile | FileType::Fifo);
    let wrong = || refuse("it is neither a regular file nor a FIFO".into());
    // Before it is opened: opening a device can already do something.
    let meta = stat(path.as_bytes()).map_err(|error| refuse(io::Error::from(error).to_string()))?;
    if is_wrong(FileType::from_raw_mode(meta.st_mode)) {
        return Err(wrong());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(CWD, path.as_bytes(), flags, Mode::empty())
        .and_then(|file| fstat(&file).map(|meta| (file, meta)));
    let (file, meta) = opened.map_err(|error| refuse(io::Error::from(error).to_string()))?;
    if is_wrong(FileType::from_raw_mode(meta.st_mode)) {
        return Err(wrong());
    }
    Ok(file)
}

const fn refused(path: String, why: String) -> ProviderError {
    ProviderError::Stdin { path, why }
}
