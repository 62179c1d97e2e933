//! Compiles the table into one classic BPF program while the crate is built.
//!
//! It knows no system call and takes no decision: numbers are cut into runs that share a verdict,
//! and a binary search over the runs takes about seven comparisons. The kernel walks a filter once
//! for every system call number when it is attached, so a short path matters more than a short list
//! (seccomp(2), kernel `Documentation/networking/filter.rst`).
//!
//! ```text
//! 0     load the architecture; another one than x86-64 is killed
//! 3     load the number; binary search over the runs
//! n     one block per verdict that looks at arguments
//! m     one return per action; all jumps go forward and end here
//! ```

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, sock_filter,
};

use super::table::{Clause, Errno, Group, Test, Verdict};

/// `AUDIT_ARCH_X86_64`: 62 (`EM_X86_64`), 64 bits, little endian (linux/audit.h).
pub(super) const ARCHITECTURE: u32 = 0xc000_003e;

/// Offsets in `struct seccomp_data` (seccomp(2)).
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// One more than the largest number that the table may list; Linux 6.18 ends at 469.
const NUMBERS: u32 = 512;
/// 256: a jump has eight bits, so a longer program might not reach its own end.
const CAPACITY: usize = 256;
/// The search needs one instruction less than there are runs.
const RUNS: usize = CAPACITY;

const LOAD: u32 = BPF_LD | BPF_W | BPF_ABS;
const RETURN: u32 = BPF_RET | BPF_K;

/// A finished filter.
#[derive(Debug)]
pub(crate) struct Program {
    instructions: [sock_filter; CAPACITY],
    length: usize,
}

impl Program {
    /// Returns the instructions, in order; callable after `vfork`.
    pub(crate) fn instructions(&self) -> &[sock_filter] {
        &self.instructions[..self.length]
    }

    /// Appends an instruction that does not jump.
    const fn push(&mut self, code: u32, k: u32) {
        self.push_with(code, k, 0, 0);
    }

    /// Appends a comparison that goes on at one of two later instructions.
    const fn push_jump(&mut self, comparison: u32, k: u32, then: usize, otherwise: usize) {
        let next = self.length + 1;
        self.push_with(
            BPF_JMP | BPF_K | comparison,
            k,
            forward(next, then),
            forward(next, otherwise),
        );
    }

    #[expect(clippy::cast_possible_truncation, reason = "codes are 16 bits, libc has them as 32")]
    const fn push_with(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        assert!(self.length < CAPACITY, "the filter is too long for 8-bit jumps");
        self.instructions[self.length] = sock_filter { code: code as u16, jt, jf, k };
        self.length += 1;
    }
}

/// What a call ends in.
#[derive(Clone, Copy)]
enum Action {
    Allow,
    Fail(Errno),
}

impl Action {
    /// Every action, in the order of the returns.
    const ALL: [Self; 4] = [
        Self::Allow,
        Self::Fail(Errno::NotPermitted),
        Self::Fail(Errno::NotImplemented),
        Self::Fail(Errno::FamilyNotSupported),
    ];

    /// Returns its position in [`Action::ALL`].
    const fn index(self) -> usize {
        match self {
            Self::Allow => 0,
            Self::Fail(Errno::NotPermitted) => 1,
            Self::Fail(Errno::NotImplemented) => 2,
            Self::Fail(Errno::FamilyNotSupported) => 3,
        }
    }

    /// Returns what the filter returns to the kernel.
    const fn code(self) -> u32 {
        match self {
            Self::Allow => SECCOMP_RET_ALLOW,
            Self::Fail(errno) => SECCOMP_RET_ERRNO | errno.number() as u32,
        }
    }
}

/// A verdict in the form that code is made from.
#[derive(Clone, Copy)]
enum Leaf {
    /// The number decides.
    Decided(Action),
    /// The arguments decide: `matched` where all of some clause hold.
    Check(Check),
}

#[derive(Clone, Copy)]
struct Check {
    clauses: &'static [Clause],
    matched: Action,
    otherwise: Action,
}

impl Check {
    /// Returns whether the accumulator may hold another argument than this condition needs.
    ///
    /// A clause of one condition leaves its argument to the next clause; a longer one may have
    /// stopped anywhere.
    const fn must_load(&self, clause: usize, index: usize) -> bool {
        let wanted = self.clauses[clause][index].argument;
        if index > 0 {
            return self.clauses[clause][index - 1].argument != wanted;
        }
        clause == 0
            || self.clauses[clause - 1].len() != 1
            || self.clauses[clause - 1][0].argument != wanted
    }

    /// Returns how many instructions one clause takes.
    const fn clause_length(&self, clause: usize) -> usize {
        let mut length = 0;
        let mut index = 0;
        while index < self.clauses[clause].len() {
            length += if self.must_load(clause, index) { 2 } else { 1 };
            index += 1;
        }
        length
    }

    /// Returns how many instructions all clauses take.
    const fn length(&self) -> usize {
        let mut length = 0;
        let mut clause = 0;
        while clause < self.clauses.len() {
            length += self.clause_length(clause);
            clause += 1;
        }
        length
    }
}

/// Neighbouring numbers with one verdict: from `first` up to the next run.
#[derive(Clone, Copy)]
struct Run {
    first: u32,
    leaf: Leaf,
}

/// All numbers, cut into runs, and the places of what the runs refer to.
struct Layout {
    runs: [Run; RUNS],
    count: usize,
    checks_at: usize,
    returns_at: usize,
}

/// Returns the program of `table`. A mistake in the table stops the build.
pub(super) const fn compile(table: &[Group]) -> Program {
    let empty = sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
    let mut program = Program { instructions: [empty; CAPACITY], length: 0 };
    program.push(LOAD, ARCHITECTURE_AT);
    program.push_jump(BPF_JEQ, ARCHITECTURE, 3, 2);
    program.push(RETURN, SECCOMP_RET_KILL_PROCESS);
    program.push(LOAD, NUMBER_AT);
    let layout = lay_out(table, program.length);
    push_search(&mut program, &layout, 0, layout.count);
    push_checks(&mut program, &layout);
    push_returns(&mut program, &layout);
    program
}

/// Cuts the numbers into runs and computes where everything will be when the search starts at
/// `start`.
const fn lay_out(table: &[Group], start: usize) -> Layout {
    let leaves = leaves_by_number(table);
    let mut runs = [Run { first: 0, leaf: leaves[0] }; RUNS];
    let mut count = 1;
    let mut number = 1;
    while number < NUMBERS {
        let leaf = leaves[number as usize];
        if !same(leaf, runs[count - 1].leaf) {
            runs[count] = Run { first: number, leaf };
            count += 1;
        }
        number += 1;
    }
    let checks_at = start + count - 1;
    let mut layout = Layout { runs, count, checks_at, returns_at: 0 };
    layout.returns_at = checks_at + checks_length(&layout, count);
    layout
}

/// Spreads the table over the numbers; the last number stays free, so that whatever is larger
/// shares its leaf.
const fn leaves_by_number(table: &[Group]) -> [Leaf; NUMBERS as usize] {
    let mut leaves = [Leaf::Decided(Action::Fail(Errno::NotImplemented)); NUMBERS as usize];
    let mut listed = [false; NUMBERS as usize];
    let mut group = 0;
    while group < table.len() {
        let mut call = 0;
        while call < table[group].calls.len() {
            let number = table[group].calls[call].number as usize;
            assert!(
                number < NUMBERS as usize - 1,
                "a system call number is too large for the filter"
            );
            assert!(!listed[number], "a system call is listed twice");
            listed[number] = true;
            leaves[number] = leaf(table[group].verdict);
            call += 1;
        }
        group += 1;
    }
    leaves
}

const fn leaf(verdict: Verdict) -> Leaf {
    let (clauses, matched, otherwise) = match verdict {
        Verdict::Allow => return Leaf::Decided(Action::Allow),
        Verdict::Refuse(errno) => return Leaf::Decided(Action::Fail(errno)),
        Verdict::AllowWhen(clauses, errno) => (clauses, Action::Allow, Action::Fail(errno)),
        Verdict::RefuseWhen(clauses, errno) => (clauses, Action::Fail(errno), Action::Allow),
    };
    assert!(!clauses.is_empty(), "a verdict that looks at arguments needs a clause");
    Leaf::Check(Check { clauses, matched, otherwise })
}

/// Returns whether two neighbouring numbers can share a run. Checks never do: few calls have one.
const fn same(left: Leaf, right: Leaf) -> bool {
    match (left, right) {
        (Leaf::Decided(left), Leaf::Decided(right)) => left.index() == right.index(),
        _ => false,
    }
}

/// Returns how many instructions the checks of the first `runs` runs take.
const fn checks_length(layout: &Layout, runs: usize) -> usize {
    let mut length = 0;
    let mut run = 0;
    while run < runs {
        if let Leaf::Check(check) = layout.runs[run].leaf {
            length += check.length();
        }
        run += 1;
    }
    length
}

impl Layout {
    /// Returns where the code of run `run` is.
    const fn leaf_at(&self, run: usize) -> usize {
        match self.runs[run].leaf {
            Leaf::Decided(action) => self.return_at(action),
            Leaf::Check(_) => self.checks_at + checks_length(self, run),
        }
    }

    const fn return_at(&self, action: Action) -> usize {
        self.returns_at + action.index()
    }
}

/// Appends the search among the runs `low..high`: a node, its left half, its right half. A half of
/// one run is no code but a jump to its leaf.
const fn push_search(program: &mut Program, layout: &Layout, low: usize, high: usize) {
    if high - low == 1 {
        return;
    }
    let middle = low.midpoint(high);
    let left_at = program.length + 1;
    let right_at = left_at + (middle - low - 1);
    let left = if middle - low == 1 { layout.leaf_at(low) } else { left_at };
    let right = if high - middle == 1 { layout.leaf_at(middle) } else { right_at };
    program.push_jump(BPF_JGE, layout.runs[middle].first, right, left);
    push_search(program, layout, low, middle);
    push_search(program, layout, middle, high);
}

const fn push_checks(program: &mut Program, layout: &Layout) {
    let mut run = 0;
    while run < layout.count {
        if let Leaf::Check(check) = layout.runs[run].leaf {
            assert!(program.length == layout.leaf_at(run), "a check is not where its run jumps");
            push_check(program, layout, check);
        }
        run += 1;
    }
}

/// Appends the clauses one after the other: a condition that fails goes on with the next clause.
const fn push_check(program: &mut Program, layout: &Layout, check: Check) {
    let mut clause = 0;
    while clause < check.clauses.len() {
        let failed = if clause + 1 == check.clauses.len() {
            layout.return_at(check.otherwise)
        } else {
            program.length + check.clause_length(clause)
        };
        push_clause(program, check, clause, layout.return_at(check.matched), failed);
        clause += 1;
    }
}

const fn push_clause(
    program: &mut Program,
    check: Check,
    clause: usize,
    matched: usize,
    failed: usize,
) {
    let conditions = check.clauses[clause];
    assert!(!conditions.is_empty(), "a clause needs a condition");
    let mut index = 0;
    while index < conditions.len() {
        if check.must_load(clause, index) {
            program.push(LOAD, argument_at(conditions[index].argument));
        }
        let last = index + 1 == conditions.len();
        let holds = if last { matched } else { program.length + 1 };
        match conditions[index].test {
            Test::Equals(value) => program.push_jump(BPF_JEQ, value, holds, failed),
            Test::AnyBit(bits) => program.push_jump(BPF_JSET, bits, holds, failed),
        }
        index += 1;
    }
}

const fn push_returns(program: &mut Program, layout: &Layout) {
    let mut index = 0;
    while index < Action::ALL.len() {
        let action = Action::ALL[index];
        assert!(program.length == layout.return_at(action), "a return is not where jumps go");
        program.push(RETURN, action.code());
        index += 1;
    }
}

/// Returns the offset of the low half of an argument on a little endian machine.
const fn argument_at(argument: u8) -> u32 {
    assert!(argument < 6, "a system call has six arguments");
    ARGUMENTS_AT + 8 * argument as u32
}

/// Returns the distance of a forward jump.
#[expect(clippy::cast_possible_truncation, reason = "the assertion bounds it")]
const fn forward(next: usize, target: usize) -> u8 {
    assert!(target >= next && target - next <= 0xff, "a jump has eight bits and goes forward");
    (target - next) as u8
}
