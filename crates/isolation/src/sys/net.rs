//! The loopback interface of a new network namespace, which begins down.
//!
//! No other interface is touched and no address is given: the kernel adds 127.0.0.1 and ::1 by
//! itself. Source: netdevice(7).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Sets the loopback interface of the own network namespace up.
///
/// # Errors
/// EPERM without `CAP_NET_ADMIN` over the namespace. Then the interface stays down.
pub(crate) fn bring_loopback_up() -> io::Result<()> {
    let any: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let request = loopback_up();
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which lives until the call returns; the descriptor is
    // a socket.
    let returned = unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    super::checked(returned.into()).map(drop)
}

/// Returns the request. It need not ask for the flags first: of those that it sets, a new `lo` has
/// none.
#[expect(clippy::cast_possible_truncation, reason = "IFF_UP is 1")]
fn loopback_up() -> libc::ifreq {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    ifr_name[0] = b'l'.cast_signed();
    ifr_name[1] = b'o'.cast_signed();
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_flags: libc::IFF_UP as libc::c_short };
    libc::ifreq { ifr_name, ifr_ifru }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::sys::clone::{Cloned, Namespaces, clone_unchecked};
    use crate::sys::process::{self, Ended};

    #[test]
    fn a_new_namespace_reaches_itself_only_afterwards() {
        let namespaces = Namespaces::SANDBOX;
        // SAFETY: the child makes system calls only: `UdpSocket` does not allocate for a literal
        // address.
        match unsafe { clone_unchecked(namespaces, None) }.expect("user namespaces") {
            Cloned::Child => process::exit_now(reach_twice()),
            Cloned::Parent { pid, .. } => {
                assert_eq!(process::wait(pid).expect("wait").ended, Ended::Exited(0));
            }
        }
    }

    fn reach_twice() -> u8 {
        let reach = || {
            let socket = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
            socket.send_to(b"x", socket.local_addr()?)
        };
        let before = reach().is_ok();
        let up = bring_loopback_up().is_ok();
        u8::from(before || !up || reach().is_err())
    }
}
