//! Whole plans, as they are printed: a change of what a sandbox is shows here first.
use crate::hosts::{of_a_user, of_root, planned, shown, spec, with_version_2};
use bailiwick_contract::bytes::Secret;
use bailiwick_contract::job::EnvVar;
use bailiwick_contract::policy::{Access, Network};
use bailiwick_isolation::facts::HostFacts;
use bailiwick_isolation::plan::{Plan, PlanError};
use bailiwick_isolation::spec::HostPathFacts;
use expect_test::{Expect, expect};
use std::fmt::Write;

fn printed(plan: &Plan) -> String {
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        writeln!(text, "{words}").expect("a String takes any text");
    };
    line(format_args!("{:?}", plan.identity));
    for (index, source) in plan.sources.iter().enumerate() {
        let owner = source.owner.map(|owner| format!(" owned by {owner:?}")).unwrap_or_default();
        line(format_args!("source {index}: {source}{owner}"));
    }
    for step in &plan.steps {
        line(format_args!("{step}"));
    }
    for rule in &plan.landlock {
        line(format_args!("landlock {} {:?}", rule.path.to_text(), rule.access));
    }
    line(format_args!("groups {:?}", plan.groups));
    line(format_args!("affinity {:?}", plan.affinity));
    line(format_args!("{:?}", plan.rlimits));
    for var in &plan.payload.env {
        line(format_args!("env {}", String::from_utf8_lossy(var.expose())));
    }
    line(format_args!("{:?}", plan.watch));
    text
}

#[track_caller]
fn check(host: &HostFacts, host_paths: Vec<HostPathFacts>, expected: &Expect) {
    let plan = planned(host, &spec(host, host_paths)).expect("a plan");
    expected.assert_eq(&printed(&plan));
}

/// What `host_paths` add to the plan without them.
#[track_caller]
fn check_added(host: &HostFacts, host_paths: Vec<HostPathFacts>, expected: &Expect) {
    let without = printed(&planned(host, &spec(host, Vec::new())).expect("a plan"));
    let with = printed(&planned(host, &spec(host, host_paths)).expect("a plan"));
    let is_new = |line: &&str| !without.lines().any(|known| known == *line);
    let added: Vec<&str> = with.lines().filter(is_new).collect();
    expected.assert_eq(&(added.join("\n") + "\n"));
}

/// What the plan says about `word`.
#[track_caller]
fn check_about(word: &str, host_paths: Vec<HostPathFacts>, expected: &Expect) {
    let plan = printed(&planned(&of_a_user(), &spec(&of_a_user(), host_paths)).expect("a plan"));
    let about: Vec<&str> = plan.lines().filter(|line| line.contains(word)).collect();
    expected.assert_eq(&(about.join("\n") + "\n"));
}

#[test]
fn the_default_policy_for_root_with_groups_of_version_1() {
    check(
        &of_root(),
        Vec::new(),
        &expect![[r#"
        Identity { uid: 1900000000, gid: 1900000000, by_root: true }
        source 0: /home/u/state/skeleton/v1 (ro,nosuid,nodev)
        source 1: /usr (ro,nosuid,nodev)
        source 2: /home/u/state/disks/ws-1/tree (rw,nosuid,nodev)
        source 3: /dev/null (ro,nosuid)
        source 4: /dev/zero (ro,nosuid)
        source 5: /dev/full (ro,nosuid)
        source 6: /dev/random (ro,nosuid)
        source 7: /dev/urandom (ro,nosuid)
        source 8: /dev/tty (ro,nosuid)
        bring the loopback interface up
        set the host name bailiwick
        attach source 0 as the new root
        attach source 1 at /usr
        attach source 2 at /workspace
        mount tmpfs at /tmp (268435456 bytes, 16384 inodes)
        mount tmpfs at /dev/shm (268435456 bytes, 16384 inodes)
        make directory /tmp/home (700)
        attach source 3 at /dev/null
        attach source 4 at /dev/zero
        attach source 5 at /dev/full
        attach source 6 at /dev/random
        attach source 7 at /dev/urandom
        attach source 8 at /dev/tty
        mount devpts at /dev/pts
        mount proc at /proc
        hide directory /proc/acpi
        hide file /proc/kcore
        make /proc/sys read-only
        pivot to the new root and drop the old one
        landlock / Read
        landlock /workspace All
        landlock /tmp All
        landlock /dev/shm All
        landlock /dev ReadWriteFile
        landlock /proc ReadWriteFile
        groups Some(GroupPlan { facts: V1 { memory: Some(b"/sys/fs/cgroup/memory"), pids: Some(b"/sys/fs/cgroup/pids"), cpu: Some(b"/sys/fs/cgroup/cpu") }, memory_bytes: Some(536870912), pids: Some(129), cpu_milli: Some(1000) })
        affinity []
        Rlimits { nproc: None, data: None, fsize: 2147483648 }
        env PATH=/usr/local/bin:/usr/bin:/bin
        env HOME=/tmp/home
        env USER=agent
        env LANG=C.UTF-8
        env TMPDIR=/tmp
        WatchPlan { wall_clock_ms: 300000, output_bytes: 10485760, memory_bytes: None, pids: None, storage_bytes: 1073741824, inodes: 65536 }
    "#]],
    );
}

#[test]
fn the_default_policy_for_a_user_without_groups() {
    check(
        &of_a_user(),
        Vec::new(),
        &expect![[r#"
        Identity { uid: 1001, gid: 1002, by_root: false }
        source 0: /home/u/state/skeleton/v1 (ro,nosuid,nodev)
        source 1: /usr (ro,nosuid,nodev)
        source 2: /home/u/state/disks/ws-1/tree (rw,nosuid,nodev)
        source 3: /dev/null (ro,nosuid)
        source 4: /dev/zero (ro,nosuid)
        source 5: /dev/full (ro,nosuid)
        source 6: /dev/random (ro,nosuid)
        source 7: /dev/urandom (ro,nosuid)
        source 8: /dev/tty (ro,nosuid)
        bring the loopback interface up
        set the host name bailiwick
        attach source 0 as the new root
        attach source 1 at /usr
        attach source 2 at /workspace
        mount tmpfs at /tmp (268435456 bytes, 16384 inodes)
        mount tmpfs at /dev/shm (268435456 bytes, 16384 inodes)
        make directory /tmp/home (700)
        attach source 3 at /dev/null
        attach source 4 at /dev/zero
        attach source 5 at /dev/full
        attach source 6 at /dev/random
        attach source 7 at /dev/urandom
        attach source 8 at /dev/tty
        mount devpts at /dev/pts
        mount proc at /proc
        hide directory /proc/acpi
        hide file /proc/kcore
        make /proc/sys read-only
        pivot to the new root and drop the old one
        landlock / Read
        landlock /workspace All
        landlock /tmp All
        landlock /dev/shm All
        landlock /dev ReadWriteFile
        landlock /proc ReadWriteFile
        groups None
        affinity [1]
        Rlimits { nproc: Some(129), data: Some(1073741824), fsize: 2147483648 }
        env PATH=/usr/local/bin:/usr/bin:/bin
        env HOME=/tmp/home
        env USER=agent
        env LANG=C.UTF-8
        env TMPDIR=/tmp
        WatchPlan { wall_clock_ms: 300000, output_bytes: 10485760, memory_bytes: Some(536870912), pids: Some(128), storage_bytes: 1073741824, inodes: 65536 }
    "#]],
    );
}

#[test]
fn groups_of_version_2_hold_what_they_can() {
    let host = with_version_2();
    let plan = planned(&host, &spec(&host, Vec::new())).expect("a plan");
    expect![[r#"
        Some(GroupPlan { facts: V2 { parent: b"/sys/fs/cgroup/user.slice/run-1.scope", controllers: ["memory", "pids", "cpu"] }, memory_bytes: Some(536870912), pids: Some(129), cpu_milli: Some(1000) })
        []
        Rlimits { nproc: None, data: None, fsize: 2147483648 }
        WatchPlan { wall_clock_ms: 300000, output_bytes: 10485760, memory_bytes: None, pids: None, storage_bytes: 1073741824, inodes: 65536 }
    "#]].assert_eq(&format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n",
        plan.groups, plan.affinity, plan.rlimits, plan.watch
    ));
}

#[test]
fn a_host_path_in_usr_is_mounted_where_it_is_writable_only() {
    let paths = vec![
        shown("/usr/share/doc", Access::ReadOnly),
        shown("/usr/local/cache", Access::ReadWrite),
    ];
    check_added(
        &of_root(),
        paths,
        &expect![[r#"
        source 9: /usr/local/cache (rw,nosuid,nodev) owned by (1001, 1002)
        attach source 9 at /usr/local/cache
        landlock /usr/local/cache All
    "#]],
    );
}

#[test]
fn a_host_path_below_tmp_needs_no_root_of_its_own() {
    let paths = vec![shown("/tmp/in", Access::ReadOnly), shown("/tmp/out", Access::ReadWrite)];
    check_added(
        &of_a_user(),
        paths,
        &expect![[r#"
        source 9: /tmp/in (ro,nosuid,nodev)
        source 10: /tmp/out (rw,nosuid,nodev)
        make directory /tmp/in (755)
        attach source 9 at /tmp/in
        make directory /tmp/out (755)
        attach source 10 at /tmp/out
        landlock /tmp/out All
    "#]],
    );
}

#[test]
fn a_host_path_elsewhere_gets_a_root_of_its_own_that_is_sealed() {
    check_added(
        &of_root(),
        vec![shown("/srv/data", Access::ReadWrite)],
        &expect![[r#"
        source 0: /home/u/state/skeleton/v1/etc (ro,nosuid,nodev)
        source 1: /home/u/state/skeleton/v1/dev (ro,nosuid,nodev)
        source 2: /home/u/state/skeleton/v1/var/empty (ro,nosuid,nodev)
        source 3: /usr (ro,nosuid,nodev)
        source 4: /home/u/state/disks/ws-1/tree (rw,nosuid,nodev)
        source 5: /dev/null (ro,nosuid)
        source 6: /dev/zero (ro,nosuid)
        source 7: /dev/full (ro,nosuid)
        source 8: /dev/random (ro,nosuid)
        source 9: /dev/urandom (ro,nosuid)
        source 10: /dev/tty (ro,nosuid)
        source 11: /srv/data (rw,nosuid,nodev) owned by (1001, 1002)
        make a tmpfs the new root
        make directory /etc (755)
        make directory /dev (755)
        make directory /proc (755)
        make directory /tmp (755)
        make directory /workspace (755)
        make directory /var/empty (755)
        make directory /usr (755)
        link /bin to usr/bin
        link /lib to usr/lib
        attach source 0 at /etc
        attach source 1 at /dev
        attach source 2 at /var/empty
        attach source 3 at /usr
        attach source 4 at /workspace
        attach source 5 at /dev/null
        attach source 6 at /dev/zero
        attach source 7 at /dev/full
        attach source 8 at /dev/random
        attach source 9 at /dev/urandom
        attach source 10 at /dev/tty
        make directory /srv/data (755)
        attach source 11 at /srv/data
        make the new root read-only
        landlock /srv/data All
    "#]],
    );
}

#[test]
fn a_file_is_mounted_on_a_file() {
    let file = HostPathFacts { is_dir: false, ..shown("/srv/model.bin", Access::ReadWrite) };
    check_about(
        "/srv",
        vec![file],
        &expect![[r#"
        source 11: /srv/model.bin (rw,nosuid,nodev)
        make file /srv/model.bin
        attach source 11 at /srv/model.bin
        landlock /srv/model.bin ReadWriteFile
    "#]],
    );
}

#[test]
fn a_toolchain_goes_first_in_path() {
    let toolchain = HostPathFacts { toolchain: true, ..shown("/opt/go/bin", Access::ReadOnly) };
    check_about(
        "/opt",
        vec![toolchain],
        &expect![[r#"
        source 11: /opt/go/bin (ro,nosuid,nodev)
        make directory /opt/go/bin (755)
        attach source 11 at /opt/go/bin
        env PATH=/opt/go/bin/bin:/opt/go/bin:/usr/local/bin:/usr/bin:/bin
    "#]],
    );
}

#[test]
fn parents_are_mounted_before_what_lies_in_them() {
    let file = HostPathFacts { is_dir: false, ..shown("/srv/a/b/f", Access::ReadWrite) };
    let paths = vec![file, shown("/srv/a/b", Access::ReadOnly), shown("/srv/a", Access::ReadWrite)];
    check_about(
        "/srv",
        paths,
        &expect![[r#"
        source 11: /srv/a (rw,nosuid,nodev)
        source 12: /srv/a/b (ro,nosuid,nodev)
        source 13: /srv/a/b/f (rw,nosuid,nodev)
        make directory /srv/a (755)
        attach source 11 at /srv/a
        attach source 12 at /srv/a/b
        attach source 13 at /srv/a/b/f
        landlock /srv/a/b/f ReadWriteFile
        landlock /srv/a All
    "#]],
    );
}

#[test]
fn a_read_only_path_inside_a_writable_one_stays_read_only() {
    let paths =
        vec![shown("/usr/local", Access::ReadWrite), shown("/usr/local/bin", Access::ReadOnly)];
    check_added(
        &of_a_user(),
        paths,
        &expect![[r#"
        source 9: /usr/local (rw,nosuid,nodev)
        source 10: /usr/local/bin (ro,nosuid,nodev)
        attach source 9 at /usr/local
        attach source 10 at /usr/local/bin
        landlock /usr/local All
    "#]],
    );
}

#[test]
fn a_forwarded_variable_replaces_ours() {
    let host = of_a_user();
    let var = |name: &str, value: &str| EnvVar {
        name: name.into(),
        value: Secret::new(value.as_bytes().to_vec()),
    };
    let mut spec = spec(&host, Vec::new());
    spec.env = vec![var("LANG", "de_DE.UTF-8"), var("TOKEN", "t")];
    let plan = planned(&host, &spec).expect("a plan");
    let env: Vec<_> =
        plan.payload.env.iter().map(|var| String::from_utf8_lossy(var.expose())).collect();
    assert_eq!(
        env,
        [
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "HOME=/tmp/home",
            "USER=agent",
            "TMPDIR=/tmp",
            "LANG=de_DE.UTF-8",
            "TOKEN=t"
        ]
    );
}

#[test]
fn an_old_landlock_gets_no_rules() {
    let host = HostFacts { landlock_abi: 1, ..of_a_user() };
    assert!(planned(&host, &spec(&host, Vec::new())).expect("a plan").landlock.is_empty());
}

#[test]
fn a_network_is_refused() {
    let host = of_a_user();
    let mut spec = spec(&host, Vec::new());
    spec.policy.policy.network = Network::Enabled;
    assert_eq!(planned(&host, &spec), Err(PlanError::Network));
}

#[test]
fn a_nul_is_refused_wherever_it_is() {
    let host = of_a_user();
    let plain = spec(&host, Vec::new());
    let mut argument = plain.clone();
    argument.argv.push(b"a\0b"[..].into());
    let with_var = |name: &str, value: &[u8]| {
        let mut spec = plain.clone();
        spec.env = vec![EnvVar { name: name.into(), value: Secret::new(value.to_vec()) }];
        spec
    };
    for spec in [argument, with_var("A", b"a\0b"), with_var("A\0B", b"x")] {
        assert!(matches!(planned(&host, &spec), Err(PlanError::Nul { .. })));
    }
    let path = vec![shown(b"/srv/a\0b"[..].to_vec(), Access::ReadOnly)];
    let refused = planned(&host, &spec(&host, path)).expect_err("refused");
    expect![[r#"the host path `/srv/a\0b` cannot be shown to a job: it is not a resolved path"#]]
        .assert_eq(&refused.to_string());
}

#[test]
fn root_shows_nothing_writable_that_belongs_to_root_or_its_group() {
    let owned = |owner_uid, owner_gid| HostPathFacts {
        owner_uid,
        owner_gid,
        ..shown("/srv/data", Access::ReadWrite)
    };
    for path in [owned(0, 7), owned(7, 0)] {
        let refused = planned(&of_root(), &spec(&of_root(), vec![path.clone()]));
        assert!(matches!(refused, Err(PlanError::HostPath { .. })), "{refused:?}");
        // An ordinary user can only write there what it can write anyway.
        assert!(planned(&of_a_user(), &spec(&of_a_user(), vec![path.clone()])).is_ok());
        let readable = HostPathFacts { access: Access::ReadOnly, ..path };
        assert!(planned(&of_root(), &spec(&of_root(), vec![readable])).is_ok());
    }
}
