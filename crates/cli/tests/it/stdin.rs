//! `--stdin`: what a job reads, byte for byte, and that it reads nothing unasked.
use crate::support::{create, each_user, sha256};
use bailiwick_testkit::TestEnv;
use serde_json::Value;

/// Runs the command in a shell, as `$0`, with something piped into it.
#[track_caller]
fn piped(env: &TestEnv, line: &str) -> Value {
    let program = env.program().to_str().expect("a plain path");
    env.host("sh", ["-c", line, program]).exits(0).json()
}

#[test]
fn a_file_and_a_pipe_reach_the_job_byte_for_byte() {
    each_user(|env| {
        create(env, &[]);
        let bytes: Vec<u8> = (0..200_000_u32).flat_map(|n| n.to_le_bytes()).collect();
        drop(env.write("in.bin", &bytes));
        let digest = sha256(&bytes);
        let counted = |package: &Value| {
            let excerpt = package["evidence"][0]["excerpt"].as_str().expect("text");
            assert_eq!(excerpt.split(' ').next(), Some(digest.as_str()), "{package}");
        };
        counted(&env.json(0, &["run", "--stdin", "in.bin", "ws", "sha256sum"]));
        counted(&env.json(0, &["exec", "--stdin", "in.bin", "--", "sha256sum"]));
        counted(&piped(env, "cat in.bin | \"$0\" run --json --stdin - ws sha256sum"));
        counted(&piped(env, "\"$0\" exec --json --stdin - -- sha256sum < in.bin"));
        let package = env.json(0, &["run", "--stdin", "in.bin", "ws", "true"]);
        assert!(package["provenance"]["inputs"].to_string().contains("stdin in.bin"), "{package}");
    });
}

#[test]
fn nothing_is_read_unasked() {
    each_user(|env| {
        create(env, &[]);
        let package = piped(env, "echo secret | \"$0\" run --json ws cat");
        assert_eq!(package["evidence"][0]["excerpt"], "", "{package}");
        // What nobody read is still there for who comes next.
        let program = env.program().to_str().expect("a plain path");
        let line = "echo kept | { \"$0\" run ws cat > /dev/null; cat; }";
        assert_eq!(env.host("sh", ["-c", line, program]).exits(0).out(), "kept\n");
    });
}

#[test]
fn what_cannot_be_read_is_refused_before_anything_runs() {
    each_user(|env| {
        create(env, &[]);
        for (path, word) in [("absent", "No such file"), ("/dev/zero", "neither"), (".", "neither")]
        {
            let failure = env.json(1, &["run", "--stdin", path, "ws", "true"]);
            assert_eq!(failure["reason"], "stdin_unusable", "{failure}");
            assert!(failure["message"].as_str().expect("text").contains(word), "{failure}");
        }
        assert!(
            env.json(0, &["inspect", "ws"])["outcome_summary"]
                .as_str()
                .expect("text")
                .contains("0 job(s)")
        );
    });
}
