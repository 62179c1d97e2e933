//! `create --dry-run`: everything is checked, and nothing is made.
use crate::support::{create, each_user, fact};
use std::fs;

#[test]
fn a_dry_run_makes_nothing_and_refuses_what_a_create_would_refuse() {
    each_user(|env| {
        let dry =
            env.json(0, &["create", "--dry-run", "--memory-bytes", "64MiB", "--allow-watched"]);
        assert_eq!((&dry["status"], fact(&dry, "state")), (&"success".into(), &().into()));
        assert!(dry["outcome_summary"].to_string().contains("nothing was created"), "{dry}");
        assert_eq!(dry["provenance"]["workspace_id"], "");
        assert_eq!(fact(&dry, "policy/memory/value"), 64 << 20);
        assert!(!env.home().join("state.db").exists(), "no state was made");
        assert!(!env.home().join("disks/ws").exists());
        let named = env.json(0, &["create", "--dry-run", "--workspace-id", "ws"]);
        assert_eq!(named["provenance"]["workspace_id"], "ws");
        assert_eq!(env.json(1, &["inspect", "ws"])["reason"], "unknown_workspace");
        let disks = fs::read_dir(env.home().join("disks")).map_or(0, Iterator::count);
        assert_eq!(disks, 0);
        create(env, &[]);
        let taken = env.json(1, &["create", "--dry-run", "--workspace-id", "ws"]);
        assert_eq!(taken["reason"], "workspace_exists", "{taken}");
        let denied = env.json(3, &["create", "--dry-run", "--network", "enabled"]);
        assert_eq!(denied["reason"], "limit_unenforceable", "{denied}");
        let unknown = env.json(1, &["create", "--dry-run", "--profile", "nope"]);
        assert_eq!(unknown["reason"], "unknown_profile", "{unknown}");
        assert_eq!(env.json(1, &["create", "--dry-run", "--label", "k="])["reason"], "bad_about");
        assert_eq!(env.json(1, &["create", "--plan"])["reason"], "usage");
    });
}
