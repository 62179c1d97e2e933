//! What lies in a workspace: listed in one order, read exactly, and never through a link.
use super::acts::{LEAVES, ODD, WRITES};
use super::scene::{Case, Full, Keeps, Scene, file, path};
use super::verdict::{Told, Works, holds, refused, same};
use bailiwick_contract::context::{CancelToken, OpCx};
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::{ListSpec, Listed, ListedKind, Listing, ProviderError};
use std::time::Duration;

fn list(
    scene: &Scene<'_>,
    below: Option<&str>,
    recursive: bool,
    limit: u64,
) -> Result<Listing, ProviderError> {
    let spec = ListSpec { below: below.map(path), recursive, limit };
    scene.provider.list(&scene.id, &spec, &scene.cx())
}

fn names(found: &[Listed]) -> Vec<String> {
    found.iter().map(|entry| entry.path.as_byte_string().to_text().into_owned()).collect()
}

fn left(case: &dyn Case) -> Result<Scene<'_>, String> {
    let scene = Scene::new(case)?;
    scene.act(LEAVES)?;
    Ok(scene)
}

pub(super) fn a_listing_is_in_the_order_of_bytes(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let found = names(&scene.list()?);
    same!(found, ["a", "d", "d.txt", "d/e", "d/e/f", "inside", "link", "pipe"], "the paths");
    let mut sorted = found.clone();
    sorted.sort_unstable_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
    same!(found, sorted, "their order");
    Ok(())
}

pub(super) fn a_listing_tells_files_directories_and_links_apart(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let found = scene.list()?;
    let at = |name: &str| {
        let entry = found.iter().find(|entry| entry.path.as_bytes() == name.as_bytes());
        entry.ok_or_else(|| format!("`{name}` is not listed"))
    };
    same!(at("a")?.what, ListedKind::File { size_bytes: 5 }, "a file");
    same!(at("a")?.mode, 0o755, "its bits");
    holds!(at("a")?.mtime > 1_600_000_000, "its time: {}", at("a")?.mtime);
    same!(at("d")?.what, ListedKind::Directory, "a directory");
    same!(at("link")?.what, ListedKind::Link { target: "/etc/passwd".into() }, "a link");
    same!(at("pipe")?.what, ListedKind::Special, "a FIFO");
    Ok(())
}

pub(super) fn a_listing_is_deep_only_when_asked(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let flat = list(&scene, None, false, 100).works("list")?;
    same!(names(&flat.entries), ["a", "d", "d.txt", "inside", "link", "pipe"], "the top");
    let below = list(&scene, Some("d"), false, 100).works("list")?;
    same!(names(&below.entries), ["d/e"], "one directory");
    let deep = list(&scene, Some("d"), true, 100).works("list")?;
    same!(names(&deep.entries), ["d/e", "d/e/f"], "all of it");
    Ok(())
}

pub(super) fn a_listing_that_is_cut_says_so(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let cut = list(&scene, None, true, 3).works("list")?;
    same!(
        (names(&cut.entries), cut.more),
        (vec!["a".into(), "d".into(), "d.txt".into()], true),
        "the first three"
    );
    Ok(())
}

pub(super) fn a_listing_that_fits_is_not_cut(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let whole = list(&scene, None, true, 8).works("list")?;
    same!((whole.entries.len(), whole.more), (8, false), "exactly as many");
    let none = list(&Scene::new(case)?, None, true, 1).works("list")?;
    same!(none, Listing::default(), "of nothing");
    Ok(())
}

pub(super) fn a_listing_of_a_file_is_that_file(case: &dyn Case) -> Told {
    let scene = left(case)?;
    for name in ["a", "link", "pipe"] {
        let found = list(&scene, Some(name), true, 100).works("list")?;
        same!((names(&found.entries), found.more), (vec![name.to_owned()], false), "`{name}`");
    }
    Ok(())
}

pub(super) fn a_listing_follows_no_link(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let found = list(&scene, Some("inside"), true, 100).works("list")?;
    same!(found.entries[0].what, ListedKind::Link { target: "d".into() }, "a link itself");
    same!(found.entries.len(), 1, "and nothing behind it");
    std::os::unix::fs::symlink("/etc", scene.tree().join("out")).works("plant a link")?;
    for behind in ["inside/e", "out/passwd"] {
        holds!(list(&scene, Some(behind), true, 100).is_err(), "`{behind}` was listed");
    }
    Ok(())
}

pub(super) fn a_listing_of_what_is_not_there_is_refused(case: &dyn Case) -> Told {
    let scene = left(case)?;
    for name in ["nothing", "no/such"] {
        refused!(list(&scene, Some(name), true, 9), ProviderError::NoFile { .. }, "`{name}`");
    }
    Ok(())
}

pub(super) fn a_listing_in_an_unknown_workspace_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let nobody = WorkspaceId::parse("ws-nobody").expect("an id");
    let spec = ListSpec { below: None, recursive: true, limit: 9 };
    let found = scene.provider.list(&nobody, &spec, &scene.cx());
    refused!(found, ProviderError::NoWorkspace { .. }, "a workspace of nobody's");
    Ok(())
}

pub(super) fn a_listing_can_be_cancelled(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let spec = ListSpec { below: None, recursive: true, limit: 9 };
    let found = scene.provider.list(&scene.id, &spec, &scene.cx_of(&cancelled));
    refused!(found, ProviderError::Interrupted(_), "a cancelled caller");
    Ok(())
}

pub(super) fn what_is_special_is_listed_and_never_read(case: &dyn Case) -> Told {
    let scene = left(case)?;
    same!(
        list(&scene, Some("pipe"), false, 9).works("list")?.entries[0].what,
        ListedKind::Special,
        "it"
    );
    // Without a writer, whoever opened it plainly would wait for ever.
    refused!(scene.read("pipe"), ProviderError::NotAFile { .. }, "a FIFO");
    Ok(())
}

pub(super) fn a_name_need_not_be_text(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.act(ODD)?;
    let found = scene.list()?;
    same!(found.len(), 1, "how many");
    same!(found[0].path.as_bytes(), b"odd\xff", "its name");
    same!(scene.read(b"odd\xff").works("read")?, b"odd", "its bytes");
    Ok(())
}

pub(super) fn a_directory_is_not_read(case: &dyn Case) -> Told {
    refused!(left(case)?.read("d"), ProviderError::NotAFile { .. }, "a directory");
    Ok(())
}

pub(super) fn a_link_is_not_read(case: &dyn Case) -> Told {
    let scene = left(case)?;
    refused!(scene.read("link"), ProviderError::NotAFile { .. }, "a link that leads out");
    refused!(scene.read("inside"), ProviderError::NotAFile { .. }, "a link that stays inside");
    Ok(())
}

pub(super) fn a_path_behind_a_link_is_not_read(case: &dyn Case) -> Told {
    let scene = left(case)?;
    refused!(scene.read("inside/e/f"), ProviderError::NotAFile { .. }, "behind a link");
    same!(scene.read("d/e/f").works("read")?, b"x\n", "the same file by its own path");
    Ok(())
}

pub(super) fn reading_ends_with_its_sink(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.act(WRITES)?;
    let mut sink = Full { bytes: Vec::new(), room: 1 };
    let read = scene.provider.read(&scene.id, &path("out.bin"), &mut sink, &scene.cx());
    refused!(read, ProviderError::Peer(_), "a full sink");
    holds!(b"0123456\n".repeat(375_000).starts_with(&sink.bytes), "it has a prefix");
    Ok(())
}

pub(super) fn reading_stays_within_its_budget(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.act(WRITES)?;
    let read = |budget_bytes| {
        let mut sink = Keeps::default();
        let cx = OpCx { budget_bytes, ..scene.cx() };
        let read = scene.provider.read(&scene.id, &path("out.bin"), &mut sink, &cx);
        (read, sink.bytes.len() as u64)
    };
    let (small, given) = read(1_000_000);
    holds!(small.is_err() && given <= 1_000_000, "{given} bytes were given");
    let (exact, given) = read(3_000_000);
    exact.works("read exactly as much as is allowed")?;
    same!(given, 3_000_000, "all of it");
    Ok(())
}

pub(super) fn reading_can_be_cancelled(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let read =
        scene.provider.read(&scene.id, &path("a"), &mut Keeps::default(), &scene.cx_of(&cancelled));
    refused!(read, ProviderError::Interrupted(_), "a cancelled caller");
    Ok(())
}

pub(super) fn reading_ends_at_its_deadline(case: &dyn Case) -> Told {
    let scene = left(case)?;
    let late = OpCx { deadline: Some(Duration::ZERO), ..scene.cx() };
    let read = scene.provider.read(&scene.id, &path("a"), &mut Keeps::default(), &late);
    refused!(read, ProviderError::Interrupted(_), "a caller who is late");
    Ok(())
}

pub(super) fn an_empty_file_reads_as_nothing(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("empty", "")]).works("write")?;
    same!(scene.read("empty").works("read")?, Vec::<u8>::new(), "its bytes");
    same!(scene.list()?[0].what, ListedKind::File { size_bytes: 0 }, "its length");
    Ok(())
}

pub(super) fn what_is_on_a_disk_is_measured(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let empty = scene.provider.inspect(&scene.id, &scene.cx()).works("inspect")?;
    same!((empty.storage_bytes, empty.inodes), (0, 0), "an empty one");
    let outcome = scene.act(WRITES)?.outcome;
    let used = scene.provider.inspect(&scene.id, &scene.cx()).works("inspect")?;
    same!(used.inodes, 1, "one file");
    holds!(used.storage_bytes >= 3_000_000, "its blocks: {used:?}");
    same!(outcome.usage.storage_bytes, used.storage_bytes, "what the job is said to have left");
    Ok(())
}
