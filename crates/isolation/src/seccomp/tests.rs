//! The filter is run here as the kernel would run it, and compared with the table.
//!
//! [`expected`] reads the table directly; seccompiler compiles the same table by other rules; and
//! one test attaches the filter to a process. The interpreter knows the instructions that the two
//! compilers emit and no others.

use std::collections::{BTreeMap, HashSet};
use std::ffi::c_long;

use libc::{
    BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_JSET, BPF_LD, BPF_RET, BPF_W,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::compile::{ARCHITECTURE, Program, compile};
use super::filter::{PROGRAM, install};
use super::table::{Clause, Condition, Errno, Group, Syscall, TABLE, Test, Verdict};
use crate::sys::clone::tests::in_child;
use crate::sys::process::Ended;

/// `AUDIT_ARCH_I386` (linux/audit.h).
const I386: u32 = 0x4000_0003;
/// Set in the numbers of the x32 ABI (asm/unistd.h).
const X32: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NO_SUCH_CALL: u32 = fails_with(Errno::NotImplemented);

const fn fails_with(errno: Errno) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.number() as u32
}

/// A system call that a process makes.
#[derive(Clone, Copy, Debug)]
struct Call {
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
}

impl Call {
    const fn new(number: u32, arguments: [u64; 6]) -> Self {
        Self { architecture: ARCHITECTURE, number, arguments }
    }

    /// Returns the word at `offset` of `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        let halves = |value: u64| [low_half(value), low_half(value >> 32)];
        let arguments = self.arguments.into_iter().flat_map(halves);
        let words: Vec<u32> =
            [self.number, self.architecture, 0, 0].into_iter().chain(arguments).collect();
        assert_eq!(offset % 4, 0, "the kernel refuses unaligned loads");
        words[offset as usize / 4]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "that is the purpose")]
const fn low_half(value: u64) -> u32 {
    value as u32
}

/// `code`, `jt`, `jf` and `k` of a `struct sock_filter`.
type Instruction = (u16, u8, u8, u32);

/// Runs a classic BPF program over `call`.
fn interpret(program: &[Instruction], call: &Call) -> u32 {
    let (mut accumulator, mut next) = (0, 0);
    loop {
        let (code, jt, jf, k) = program[next];
        next += 1;
        let branch = |holds: bool| usize::from(if holds { jt } else { jf });
        match u32::from(code) {
            LOAD => accumulator = call.word(k),
            MASK => accumulator &= k,
            JUMP => next += k as usize,
            JUMP_EQUAL => next += branch(accumulator == k),
            JUMP_GREATER => next += branch(accumulator > k),
            JUMP_GREATER_OR_EQUAL => next += branch(accumulator >= k),
            JUMP_SET => next += branch(accumulator & k != 0),
            BPF_RET => return k,
            other => panic!("instruction {other:#x} at {}", next - 1),
        }
    }
}

const LOAD: u32 = BPF_LD | BPF_W | libc::BPF_ABS;
const MASK: u32 = BPF_ALU | BPF_AND;
const JUMP: u32 = BPF_JMP;
const JUMP_EQUAL: u32 = BPF_JMP | BPF_JEQ;
const JUMP_GREATER: u32 = BPF_JMP | BPF_JGT;
const JUMP_GREATER_OR_EQUAL: u32 = BPF_JMP | BPF_JGE;
const JUMP_SET: u32 = BPF_JMP | BPF_JSET;

/// Returns what `program` answers.
fn answer(program: &Program, call: &Call) -> u32 {
    let instructions = program.instructions().iter();
    let program: Vec<_> = instructions.map(|at| (at.code, at.jt, at.jf, at.k)).collect();
    interpret(&program, call)
}

/// Returns what `table` says.
fn expected(table: &[Group], call: &Call) -> u32 {
    if call.architecture != ARCHITECTURE {
        return libc::SECCOMP_RET_KILL_PROCESS;
    }
    let holds = |condition: &Condition| {
        let argument = low_half(call.arguments[usize::from(condition.argument)]);
        match condition.test {
            Test::Equals(value) => argument == value,
            Test::AnyBit(bits) => argument & bits != 0,
        }
    };
    let any = |clauses: &[Clause]| clauses.iter().any(|clause| clause.iter().all(holds));
    match verdict(table, call.number) {
        None => NO_SUCH_CALL,
        Some(Verdict::Allow) => ALLOW,
        Some(Verdict::Refuse(errno)) => fails_with(errno),
        Some(Verdict::AllowWhen(clauses, errno)) if !any(clauses) => fails_with(errno),
        Some(Verdict::RefuseWhen(clauses, errno)) if any(clauses) => fails_with(errno),
        Some(Verdict::AllowWhen(..) | Verdict::RefuseWhen(..)) => ALLOW,
    }
}

fn verdict(table: &[Group], number: u32) -> Option<Verdict> {
    let group = table.iter().find(|group| group.calls.iter().any(|call| call.number == number))?;
    Some(group.verdict)
}

/// Returns calls with every number that exists, that may exist and that must not, and arguments
/// around every value that the table mentions.
fn calls(table: &[Group]) -> Vec<Call> {
    let near = [0, 1, 0x7fff_ffff, X32, X32 + 600, u32::MAX - 1, u32::MAX];
    let numbers = (0..600).chain((0..600).map(|number| X32 | number)).chain(near);
    let mut calls: Vec<_> = numbers.map(|number| Call::new(number, [0; 6])).collect();
    calls.extend((0..600).map(|number| Call::new(number, [u64::MAX; 6])));
    for group in table {
        for call in group.calls {
            calls.extend(
                arguments(group.verdict).map(|arguments| Call::new(call.number, arguments)),
            );
        }
    }
    let foreign = calls.iter().map(|call| Call { architecture: I386, ..*call });
    let foreign: Vec<_> = foreign.collect();
    calls.extend(foreign);
    calls
}

/// Returns combinations of the interesting values of each argument that `verdict` looks at.
fn arguments(verdict: Verdict) -> impl Iterator<Item = [u64; 6]> {
    let clauses = match verdict {
        Verdict::Allow | Verdict::Refuse(_) => &[],
        Verdict::AllowWhen(clauses, _) | Verdict::RefuseWhen(clauses, _) => clauses,
    };
    let mut values: BTreeMap<usize, HashSet<u64>> = BTreeMap::new();
    for condition in clauses.iter().copied().flatten() {
        values.entry(condition.argument.into()).or_default().extend(interesting(condition.test));
    }
    let mut combinations = vec![[0; 6]];
    for (argument, values) in values {
        let with = |combination: [u64; 6]| {
            values.iter().map(move |value| {
                let mut next = combination;
                next[argument] = *value;
                next
            })
        };
        combinations = combinations.into_iter().flat_map(with).collect();
    }
    combinations.into_iter()
}

/// Returns the value, its neighbours, each of its bits, and all of them with the high half set.
fn interesting(test: Test) -> HashSet<u64> {
    let (Test::Equals(value) | Test::AnyBit(value)) = test;
    let around = [0, 1, value, value.wrapping_sub(1), value.wrapping_add(1), !value, u32::MAX];
    let low = around.into_iter().chain((0..32).map(|bit| value & (1 << bit)));
    low.flat_map(|low| [u64::from(low), u64::from(low) | 0xffff_ffff_0000_0000]).collect()
}

#[test]
fn the_program_says_what_the_table_says() {
    for call in calls(TABLE) {
        assert_eq!(answer(&PROGRAM, &call), expected(TABLE, &call), "{call:x?}");
    }
}

#[test]
fn seccompiler_says_the_same() {
    let oracle = Oracle::new();
    for call in calls(TABLE) {
        assert_eq!(answer(&PROGRAM, &call), oracle.answer(&call), "{call:x?}");
    }
}

/// Clauses that the real table has no use for: several conditions first, arguments in turn.
#[test]
fn every_shape_of_a_check_compiles() {
    let is = |argument, value| Condition { argument, test: Test::Equals(value) };
    let any = |argument, bits| Condition { argument, test: Test::AnyBit(bits) };
    let clauses = [
        vec![is(0, 1), is(1, 2)],
        vec![is(0, 3)],
        vec![is(1, 4)],
        vec![any(1, 0x30), is(1, 0x10), any(0, 0x81)],
        vec![is(5, 0)],
    ];
    let clauses: Vec<Clause> = clauses.into_iter().map(|clause| &*clause.leak()).collect();
    let clauses: &[Clause] = clauses.leak();
    let number = |number| vec![Syscall { name: "SYS_example", number }].leak();
    let group = |at, verdict| Group { reason: "a test", verdict, calls: number(at) };
    let table = [
        group(0, Verdict::AllowWhen(clauses, Errno::NotPermitted)),
        group(1, Verdict::RefuseWhen(clauses, Errno::FamilyNotSupported)),
        group(3, Verdict::Allow),
        group(510, Verdict::RefuseWhen(&clauses[..2], Errno::NotPermitted)),
    ];
    let program = compile(&table);
    for call in calls(&table) {
        assert_eq!(answer(&program, &call), expected(&table, &call), "{call:x?}");
    }
}

#[test]
#[should_panic(expected = "a system call is listed twice")]
fn a_call_is_listed_once() {
    compile(&[TABLE[0], TABLE[0]]);
}

/// Filters of seccompiler: one decides by number and arguments what is allowed, the others decide
/// by number alone how the rest fails.
struct Oracle {
    allowed: Vec<Instruction>,
    refusals: Vec<Vec<Instruction>>,
}

impl Oracle {
    fn new() -> Self {
        let allowed = rules(|verdict| match verdict {
            Verdict::Allow => Some(vec![]),
            Verdict::Refuse(_) => None,
            Verdict::AllowWhen(clauses, _) => {
                Some(clauses.iter().map(|all| rule(all, true)).collect())
            }
            Verdict::RefuseWhen(clauses, _) => Some(vec![rule(&single(clauses), false)]),
        });
        let refused = [Errno::NotPermitted, Errno::NotImplemented, Errno::FamilyNotSupported];
        let refusals = refused.map(|errno| {
            let numbers = rules(|verdict| match verdict {
                Verdict::Allow => None,
                Verdict::Refuse(with)
                | Verdict::AllowWhen(_, with)
                | Verdict::RefuseWhen(_, with) => (with == errno).then(Vec::new),
            });
            filter(numbers, SeccompAction::Allow, SeccompAction::Errno(errno.number().into()))
        });
        let missing = SeccompAction::Errno(Errno::NotImplemented.number().into());
        let allowed = filter(allowed, missing, SeccompAction::Allow);
        Self { allowed, refusals: refusals.into() }
    }

    fn answer(&self, call: &Call) -> u32 {
        let first = interpret(&self.allowed, call);
        if first != NO_SUCH_CALL {
            return first;
        }
        let mut answers = self.refusals.iter().map(|filter| interpret(filter, call));
        answers.find(|answer| *answer != ALLOW).unwrap_or(first)
    }
}

/// Returns `of(verdict)` for every listed number for which there is such a thing; no rules match
/// always.
fn rules(of: impl Fn(Verdict) -> Option<Vec<SeccompRule>>) -> BTreeMap<i64, Vec<SeccompRule>> {
    let calls = TABLE.iter().flat_map(|group| group.calls.iter().map(|call| (call, group.verdict)));
    calls.filter_map(|(call, verdict)| Some((call.number.into(), of(verdict)?))).collect()
}

fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    mismatch: SeccompAction,
    matched: SeccompAction,
) -> Vec<Instruction> {
    let filter = SeccompFilter::new(rules, mismatch, matched, TargetArch::x86_64);
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a valid filter");
    program.iter().map(|at| (at.code, at.jt, at.jf, at.k)).collect()
}

/// Returns a rule under which all `conditions` hold, or all fail.
fn rule(conditions: &[Condition], hold: bool) -> SeccompRule {
    let compare = |condition: &Condition| {
        let (operator, value) = match (condition.test, hold) {
            (Test::Equals(value), true) => (SeccompCmpOp::Eq, value),
            (Test::Equals(value), false) => (SeccompCmpOp::Ne, value),
            (Test::AnyBit(bits), false) => (SeccompCmpOp::MaskedEq(bits.into()), 0),
            (Test::AnyBit(_), true) => panic!("seccompiler has no such operator"),
        };
        let length = SeccompCmpArgLen::Dword;
        SeccompCondition::new(condition.argument, length, operator, value.into()).expect("valid")
    };
    SeccompRule::new(conditions.iter().map(compare).collect()).expect("a rule has conditions")
}

/// Returns the conditions of clauses that have one each, of which then all have to fail.
fn single(clauses: &[Clause]) -> Vec<Condition> {
    assert!(clauses.iter().all(|clause| clause.len() == 1), "the oracle cannot negate more");
    clauses.concat()
}

#[test]
fn the_program_is_short() {
    assert!(PROGRAM.instructions().len() <= 256, "{}", PROGRAM.instructions().len());
}

#[test]
fn every_group_says_why_in_a_sentence_of_its_own() {
    let reasons: HashSet<_> = TABLE.iter().map(|group| group.reason).collect();
    assert_eq!(reasons.len(), TABLE.len());
    assert!(reasons.iter().all(|reason| reason.len() > 10), "{reasons:?}");
}

#[test]
fn names_and_numbers_are_unique() {
    let calls = || TABLE.iter().flat_map(|group| group.calls);
    let names: HashSet<_> = calls().map(|call| call.name).collect();
    let numbers: HashSet<_> = calls().map(|call| call.number).collect();
    assert_eq!((names.len(), numbers.len()), (calls().count(), calls().count()));
}

/// Calls that the table has to name, by the answer that each has to get; it cannot drop one by accident.
#[test]
fn the_table_keeps_what_it_promises() {
    let listed = |name| {
        let in_group = |group: &&Group| group.calls.iter().any(|c| c.name == name);
        TABLE.iter().find(in_group).map(|group| group.verdict)
    };
    let refused = "ptrace process_vm_readv process_vm_writev mount umount2 pivot_root chroot setns \
        open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr keyctl add_key \
        request_key bpf perf_event_open userfaultfd io_uring_setup io_uring_enter \
        io_uring_register init_module finit_module delete_module kexec_load kexec_file_load \
        reboot swapon swapoff acct quotactl quotactl_fd settimeofday clock_settime \
        open_by_handle_at sched_setaffinity sethostname setdomainname iopl ioperm nfsservctl \
        fanotify_init pidfd_getfd kcmp lookup_dcookie syslog vhangup";
    for name in refused.split_whitespace() {
        let verdict = listed(format!("SYS_{name}"));
        assert!(matches!(verdict, Some(Verdict::Refuse(Errno::NotPermitted))), "{name}");
    }
    let clone3 = listed("SYS_clone3".into());
    assert!(matches!(clone3, Some(Verdict::Refuse(Errno::NotImplemented))));
}

/// Makes a system call whose arguments are numbers or null pointers and returns its errno, or 0.
fn errno_of(number: c_long, arguments: [c_long; 3]) -> i32 {
    let [first, second, third] = arguments;
    // SAFETY: every call in these tests is one that the filter answers, or takes no pointer.
    let returned = unsafe { libc::syscall(number, first, second, third) };
    if returned == -1 { std::io::Error::last_os_error().raw_os_error().unwrap_or(-1) } else { 0 }
}

/// Puts a child under the filter, makes the call there and returns its errno.
fn filtered(number: c_long, arguments: [c_long; 3]) -> Ended {
    in_child(|| {
        if rustix::thread::set_no_new_privs(true).is_err() || install().is_err() {
            return 255;
        }
        u8::try_from(errno_of(number, arguments)).unwrap_or(254)
    })
}

#[test]
fn the_kernel_takes_the_filter_and_answers_by_it() {
    let x32 = c_long::from(X32);
    let high = 1 << 32;
    let cases: &[(c_long, [c_long; 3], i32)] = &[
        (libc::SYS_getppid, [0; 3], 0),
        (libc::SYS_mount, [0; 3], libc::EPERM),
        (libc::SYS_ptrace, [0; 3], libc::EPERM),
        (libc::SYS_sched_setaffinity, [0; 3], libc::EPERM),
        (libc::SYS_clone3, [0; 3], libc::ENOSYS),
        (libc::SYS_clone, [libc::CLONE_NEWUSER.into(), 0, 0], libc::EPERM),
        (libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0], libc::EPERM),
        (libc::SYS_unshare, [libc::CLONE_FILES.into(), 0, 0], 0),
        (libc::SYS_memfd_secret, [0; 3], libc::ENOSYS),
        (511, [0; 3], libc::ENOSYS),
        (x32 | libc::SYS_getppid, [0; 3], libc::ENOSYS),
        (libc::SYS_ioctl, [0, 0x5412, 0], libc::EPERM),
        (libc::SYS_ioctl, [0, high | 0x5412, 0], libc::EPERM),
        (libc::SYS_ioctl, [0, 0x541c, 0], libc::EPERM),
        (libc::SYS_ioctl, [-1, 0x5401, 0], libc::EBADF),
        (libc::SYS_socket, [libc::AF_UNIX.into(), 1, 0], 0),
        (libc::SYS_socket, [libc::AF_INET.into(), 1, 0], 0),
        (libc::SYS_socket, [libc::AF_NETLINK.into(), 3, 0], 0),
        (libc::SYS_socket, [libc::AF_NETLINK.into(), 3, 12], libc::EAFNOSUPPORT),
        (libc::SYS_socket, [libc::AF_VSOCK.into(), 1, 0], libc::EAFNOSUPPORT),
        (libc::SYS_socket, [libc::AF_PACKET.into(), 3, 0], libc::EAFNOSUPPORT),
        (libc::SYS_socketpair, [libc::AF_TIPC.into(), 1, 0], libc::EAFNOSUPPORT),
        (libc::SYS_personality, [0xffff_ffff, 0, 0], 0),
        (libc::SYS_personality, [0x4_0000, 0, 0], libc::EPERM),
        (libc::SYS_prctl, [libc::PR_SET_MM.into(), 0, 0], libc::EPERM),
    ];
    for (number, arguments, errno) in cases {
        let errno = u8::try_from(*errno).expect("errnos are small");
        let ended = filtered(*number, *arguments);
        assert_eq!(ended, Ended::Exited(errno), "call {number} {arguments:x?}");
    }
}

/// The same calls without the filter: an answer that the kernel gives anyway would prove nothing.
#[test]
fn without_the_filter_the_answers_differ() {
    let unfiltered =
        |number, arguments| in_child(|| u8::try_from(errno_of(number, arguments)).unwrap_or(254));
    let succeeds = Ended::Exited(0);
    assert_eq!(unfiltered(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0]), succeeds);
    assert_eq!(unfiltered(libc::SYS_personality, [0x4_0000, 0, 0]), succeeds);
    assert_eq!(unfiltered(libc::SYS_socket, [libc::AF_NETLINK.into(), 3, 12]), succeeds);
    let not_a_terminal = [-1, 0x5412, 0];
    assert_eq!(
        unfiltered(libc::SYS_ioctl, not_a_terminal),
        Ended::Exited(u8::try_from(libc::EBADF).expect("small"))
    );
}

#[test]
fn a_call_by_the_32_bit_door_is_killed() {
    let ended = in_child(|| {
        if rustix::thread::set_no_new_privs(true).is_err() || install().is_err() {
            return 255;
        }
        getppid_by_int80();
        0
    });
    // A kernel without the 32-bit entry ends it by SIGSEGV.
    assert!(matches!(ended, Ended::Killed(libc::SIGSYS | libc::SIGSEGV)), "{ended:?}");
}

fn getppid_by_int80() {
    // SAFETY: call 64 of i386 takes no argument; the entry changes the registers that are named
    // here.
    unsafe {
        std::arch::asm!(
            "int 0x80", inlateout("eax") 64 => _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
}
