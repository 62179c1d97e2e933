//! Files in and out: what is journalled when, and which states allow it.
use crate::provider::Script;
use crate::world::{World, declaring, job, writing_pi, ws};
use bailiwick_contract::artifact::ArtifactDeclaration;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::provider::ByteSink;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::files::{ByteRange, FilesRequest};
use bailiwick_engine::requests::{ExportRequest, JobRequest, PutRequest, Report};
use std::error::Error;
use std::io::Read;

fn put_archive(
    world: &World,
    archive: impl Read + 'static,
) -> Result<Report, bailiwick_contract::error::Failure> {
    let request = PutRequest {
        workspace: ws("demo"),
        source: "-".into(),
        destination: "in".into(),
        overwrite: false,
        ignore_file: None,
        bound: None,
    };
    world.engine().put_archive(&request, Box::new(archive))
}

fn site() -> Script {
    let writes = vec![("site/index", b"hello".to_vec()), ("site/d/page", b"more".to_vec())];
    Script { writes, ..Script::default() }
}

fn declaring_site() -> JobRequest {
    let declares = vec![ArtifactDeclaration {
        name: "site".into(),
        purpose: "all of it".into(),
        media_type: "text/html".into(),
    }];
    JobRequest { declares, ..job(&["make", "site"]) }
}

#[test]
fn nothing_is_journalled_of_a_batch_that_is_refused_while_it_is_read() {
    let world = World::with_demo();
    world.batches();
    let refused = put_archive(&world, std::io::empty()).expect_err("no archive");
    assert_eq!(refused.reason, "bad_archive");
    // Half of a header, and then a reader that fails.
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("gone"))
        }
    }
    let refused = put_archive(&world, [0_u8; 100].chain(Broken)).expect_err("broken");
    assert_eq!((refused.reason, refused.code), ("input_unreadable", ExitCode::EnvironmentError));
    assert!(world.batches().is_empty());
    assert!(world.provider.inner().disks[&ws("demo")].is_empty());
}

#[test]
fn an_intent_that_cannot_be_made_durable_lands_nothing() {
    let world = World::with_demo();
    let file = world.host_file("a", "hello\n");
    world.store.tables().room = Some(0);
    let refused = world.put(file, "a").expect_err("the disk is full");
    assert_eq!(refused.code, ExitCode::EnvironmentError, "{refused}");
    assert!(world.provider.inner().disks[&ws("demo")].is_empty());
    world.store.tables().room = None;
    assert!(world.store.tables().intents.is_empty());
}

#[test]
fn a_batch_that_fails_behind_its_gate_is_abandoned() {
    let world = World::with_demo();
    let file = world.host_file("a", "hello\n");
    world.batches();
    world.provider.inner().write_fails = true;
    assert_eq!(world.put(file, "a").expect_err("full").reason, "no_space");
    assert_eq!(world.batches(), [vec!["intent_opened"], vec!["intent_closed"]]);
    assert!(world.store.tables().inputs.is_empty());
}

#[test]
fn a_directory_is_a_declared_artifact_like_any_other() {
    let world = World::with_demo();
    world.script(site());
    let ran = world.run(declaring_site()).expect("ran").package;
    assert_eq!(ran.facts.job_status.as_deref(), Some("success"), "{ran:?}");
    assert!(ran.attention.iter().any(|line| line.contains("declared but not exported")), "{ran:?}");
    assert_eq!(world.destroy(false).expect_err("it is pending").code, ExitCode::UserError);
    let report = world.export("site", world.path("out")).expect("exported").package;
    assert_eq!(std::fs::read(world.path("out/d/page")).expect("published"), b"more");
    let [artifact] = &report.artifacts[..] else { panic!("one artifact") };
    assert_eq!((artifact.size_bytes, artifact.media_type.as_str()), (9, "application/x-tar"));
    assert_eq!(artifact.purpose, "all of it");
    world.destroy(false).expect("nothing is pending");
}

#[test]
fn what_ended_can_still_be_exported_and_looked_into() {
    for state in [WorkspaceState::Completed, WorkspaceState::Expired, WorkspaceState::Failed] {
        let world = World::with_demo();
        world.script(writing_pi());
        world.run(declaring()).expect("ran");
        world.store.tables().workspaces[0].state = state;
        world
            .export("pi", world.path("out"))
            .unwrap_or_else(|failure| panic!("{state}: {failure}"));
        let request = FilesRequest {
            workspace: ws("demo"),
            path: None,
            recursive: true,
            glob: Some("p?".into()),
            limit: 5,
        };
        let listing = world.engine().files(&request).expect("listed");
        assert_eq!(listing.entries[0].path, ByteString::from("pi"), "{state}");
        assert_eq!(read(&world, "pi", ByteRange { start: 2, end: 6 }), b"1415", "{state}");
        assert_eq!(world.state(), state);
    }
}

#[derive(Default)]
struct Kept(Vec<u8>);

impl ByteSink for Kept {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

fn read(world: &World, path: &str, range: ByteRange) -> Vec<u8> {
    let mut kept = Kept::default();
    let read = world.engine().read_file(&ws("demo"), &path.into(), range, &mut kept, &|_| {});
    read.expect("read");
    kept.0
}

#[test]
fn an_undeclared_export_leaves_an_intent_and_nothing_else_on_record() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.run(job(&["make", "pi"])).expect("ran");
    world.batches();
    let report = world.engine().export(&ExportRequest {
        workspace: ws("demo"),
        name: "number".into(),
        destination: world.path("out"),
        path: Some("pi".into()),
        undeclared: true,
        tar: false,
        no_clobber: false,
        expect_sha256: None,
        bound: None,
    });
    let package = report.expect("exported").package;
    assert_eq!(package.artifacts[0].name, "number");
    assert_eq!(world.batches(), [vec!["intent_opened"], vec!["intent_closed"]]);
    world.destroy(false).expect("nothing is pending");
}
