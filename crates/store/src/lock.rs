//! The fair lock that a writer holds from BEGIN to COMMIT: a flock on `write.lock`.
//!
//! SQLite's own locks keep the database right; this one only decides who is next, as the kernel queues waiters and
//! SQLite's busy handler does not (flock(2)). It says nothing about who may write.
use crate::home::Home;
use bailiwick_contract::store::StoreError;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// 30 s: thousands of times what a writer needs; a longer hold is a stopped process.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// The lock, opened when it is first needed.
#[derive(Debug)]
pub(crate) struct WriteLock {
    wait_max: Duration,
    file: Mutex<Option<OwnedFd>>,
}

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(crate) struct WriteGuard<'a> {
    file: MutexGuard<'a, Option<OwnedFd>>,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        let unlocked = self
            .file
            .as_ref()
            .is_some_and(|f| rustix::fs::flock(f, FlockOperation::Unlock).is_ok());
        if !unlocked {
            *self.file = None;
        }
    }
}

impl WriteLock {
    pub(crate) const fn new(wait_max: Duration) -> Self {
        Self { wait_max, file: Mutex::new(None) }
    }

    /// Takes the lock, in order of arrival.
    pub(crate) fn acquire(&self, home: &Home) -> Result<WriteGuard<'_>, StoreError> {
        let unwritable = |error: Errno| StoreError::Unwritable {
            path: home.database().display().to_string(),
            why: format!("its write lock cannot be taken: {error}"),
        };
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match slot.take() {
            Some(file) => file,
            None => home.open_write_lock().map_err(unwritable)?,
        };
        let file = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => file,
            Err(Errno::WOULDBLOCK) => match self.wait(file) {
                Ok(locked) => locked.map_err(unwritable)?,
                Err(_) => return Err(self.busy(home)),
            },
            Err(error) => return Err(unwritable(error)),
        };
        *slot = Some(file);
        Ok(WriteGuard { file: slot })
    }

    /// Queues in the kernel, on a thread that is left behind when the time is over: it drops what it gets then.
    fn wait(&self, file: OwnedFd) -> Result<Result<OwnedFd, Errno>, RecvTimeoutError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let queue = move || {
            let locked = rustix::io::retry_on_intr(|| {
                rustix::fs::flock(&file, FlockOperation::LockExclusive)
            });
            // Nobody listens any more after the time is over.
            drop(sender.send(locked.map(|()| file)));
        };
        match thread::Builder::new().name("write-lock".into()).spawn(queue) {
            Ok(_) => receiver.recv_timeout(self.wait_max),
            Err(_) => Ok(Err(Errno::AGAIN)),
        }
    }

    fn busy(&self, home: &Home) -> StoreError {
        let path = home.database().display().to_string();
        StoreError::Busy { path, seconds: self.wait_max.as_secs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let scratch = tempfile::tempdir().expect("a directory");
        let home = Home::open(scratch.path()).expect("opens");
        (scratch, home)
    }

    #[test]
    fn a_waiter_gets_the_lock_when_it_is_free() {
        let (_scratch, home) = home();
        let (first, second) = (WriteLock::new(WAIT_MAX), WriteLock::new(WAIT_MAX));
        let held = first.acquire(&home).expect("free");
        thread::scope(|scope| {
            let waiter = scope.spawn(|| second.acquire(&home).map(drop));
            thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            drop(held);
            waiter.join().expect("no panic").expect("free now");
        });
    }

    #[test]
    fn a_wait_ends_in_time_and_leaves_no_lock_behind() {
        let (_scratch, home) = home();
        let first = WriteLock::new(WAIT_MAX);
        let second = WriteLock::new(Duration::from_millis(20));
        let held = first.acquire(&home).expect("free");
        assert!(matches!(second.acquire(&home), Err(StoreError::Busy { .. })));
        drop(held);
        drop(second.acquire(&home).expect("free again"));
        drop(first.acquire(&home).expect("free again"));
    }
}
