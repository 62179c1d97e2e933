//! A job's network is a loopback of its own.
use crate::claim::{Claim, Control, Seen, Verdict, attempt};
use crate::scene::Scene;
use crate::table::check;

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::tried(
        "net-loopback",
        "A job cannot connect to a service on the host's loopback address.",
        attempt("./probe net-connect {TCP}", &["ECONNREFUSED"], Control::Plain),
    ),
    Claim::tried(
        "net-host-address",
        "A job cannot connect to another address of the host.",
        attempt("./probe net-connect {HOST_TCP}", &["ENETUNREACH"], Control::Plain),
    ),
    Claim::tried(
        "net-udp",
        "A job cannot send a datagram to an address of the host.",
        attempt("./probe net-udp {HOST_UDP}", &["ENETUNREACH"], Control::Plain),
    ),
    Claim::steps(
        "net-udp-loopback",
        "A datagram that a job sends to its loopback address does not arrive at the host's.",
        datagram_to_loopback,
    ),
    Claim::tried(
        "net-dns",
        "A job has no route to a name server.",
        attempt("./probe net-udp 198.51.100.53:53", &["ENETUNREACH"], Control::Plain),
    ),
    Claim::tried(
        "net-metadata",
        "A job has no route to the metadata address of a cloud.",
        attempt("./probe net-udp 169.254.169.254:80", &["ENETUNREACH"], Control::Plain),
    ),
    Claim::tried(
        "net-interfaces",
        "A job sees no network interface but its own loopback.",
        attempt("./probe net-interfaces", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "net-abstract-socket",
        "A job cannot connect to an abstract socket of the host.",
        attempt("./probe abstract-socket {ABSTRACT}", &["ECONNREFUSED"], Control::Plain),
    ),
    Claim::tried(
        "net-unix-socket",
        "A job cannot connect to a unix socket of the host that has a path.",
        attempt("./probe unix-socket {UNIX}", &["ENOENT"], Control::Plain),
    ),
    Claim::tried(
        "net-vsock",
        "A job cannot make a socket to the hypervisor.",
        attempt("./probe vsock", &["EAFNOSUPPORT"], Control::Plain),
    ),
    Claim::tried(
        "net-packet",
        "A job cannot make a packet socket.",
        attempt("./probe packet", &["EAFNOSUPPORT"], Control::Namespaces),
    ),
    Claim::tried(
        "net-raw",
        "A job cannot make a raw IP socket.",
        attempt("./probe raw", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "net-netfilter",
        "A job cannot make a netlink socket to the packet filter.",
        attempt("./probe netfilter", &["EAFNOSUPPORT"], Control::Plain),
    ),
    Claim::tried(
        "net-uevent",
        "A job cannot listen to the kernel's events of devices.",
        attempt("./probe uevent", &["EAFNOSUPPORT"], Control::Plain),
    ),
];

/// The job's own loopback takes the datagram, so that what counts is whether it arrived.
fn datagram_to_loopback(scene: &mut Scene) -> Verdict {
    while scene.datagram() {}
    let line = format!("./probe net-udp 127.0.0.1:{}", scene.udp_port());
    let arrived = |said: Seen| match said {
        Seen::Broken(why) => Seen::Broken(why),
        _ => Seen::of(scene.datagram(), "by listening"),
    };
    let inside = arrived(scene.inside("", &line));
    Verdict { inside, control: arrived(scene.outside(Control::Plain, &line)) }
}

#[test]
fn a_job_reaches_no_network() {
    check("network", CLAIMS);
}
