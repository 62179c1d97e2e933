//! A range of a file as memory: what is written there is in the file, and stays when the process is killed.
//!
//! It makes no room: a page whose block the disk cannot give is EFAULT where the kernel writes it, and SIGBUS where the program
//! does. So it is for ranges that are written already, and for read(2) to write into. Source: mmap(2).
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

/// The alignment that mmap(2) wants of an offset; larger pages than this are refused by the kernel, not misread.
const PAGE_BYTES: u64 = 4_096;

/// A range of a file, shared with everybody who has the file.
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<u8>,
    /// Bytes before the range that had to be mapped with it.
    skipped: usize,
    length: usize,
}

impl Mapped {
    /// Maps `length` bytes, at least one, from `offset` on. The file has them, and nobody makes it shorter meanwhile.
    ///
    /// # Errors
    /// What mmap(2) says; nothing is mapped then.
    pub fn of(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        let skipped = offset % PAGE_BYTES;
        let before = usize::try_from(skipped).map_err(io::Error::other)?;
        let all = before.checked_add(length).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let from = offset - skipped;
        // SAFETY: without MAP_FIXED the kernel chooses a place where nothing is, so no memory of this process changes.
        let start = unsafe { mmap(null_mut(), all, access, MapFlags::SHARED, file, from) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, skipped: before, length })
    }

    /// The bytes of the range.
    pub fn bytes(&mut self) -> &mut [u8] {
        let (start, all) = (self.start.as_ptr(), self.skipped + self.length);
        // SAFETY: `all` bytes from `start` on are mapped until the drop, readable and writable. This process holds no other
        // reference to them, and others only read them by read(2).
        let mapped = unsafe { std::slice::from_raw_parts_mut(start, all) };
        &mut mapped[self.skipped..]
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let all = self.skipped + self.length;
        // SAFETY: these are the bytes that `of` has mapped; a reference to them would have borrowed what is dropped here.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), all) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own could not be given back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_written_to_a_mapped_range_is_in_the_file_and_nothing_else_is() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[b'.'; 10_000]).expect("written");
        let mut mapped = Mapped::of(file.as_fd(), 4_099, 5_000).expect("mapped");
        assert_eq!(mapped.bytes().len(), 5_000);
        mapped.bytes().fill(b'x');
        drop(mapped);
        let mut bytes = vec![0; 10_000];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).expect("read");
        let is_mapped = |at: usize| (4_099..9_099).contains(&at);
        assert!(bytes.iter().enumerate().all(|(at, byte)| (*byte == b'x') == is_mapped(at)));
    }

    #[test]
    fn a_file_that_may_not_be_written_is_not_mapped() {
        let file = std::fs::File::open("/proc/self/exe").expect("open");
        assert!(Mapped::of(file.as_fd(), 0, 10).is_err());
    }
}
