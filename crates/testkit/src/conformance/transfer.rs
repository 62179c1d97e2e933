//! Batches: all of it or nothing, as it was, and never behind a link.
use super::scene::{Case, Does, Given, MTIME, Open, Scene, entry, failing, file, folder, shut};
use super::verdict::{Told, Works, holds, refused, same};
use bailiwick_contract::context::{CancelToken, OpCx};
use bailiwick_contract::provider::{EntryKind, EntrySource, ListedKind, ProviderError};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Everything that a batch can hold.
fn one_of_everything() -> Vec<Given> {
    let tool = EntryKind::File { mode: 0o755, mtime: MTIME };
    vec![
        file("a", "12345"),
        entry("bin/tool", tool, "#!/bin/sh\n"),
        entry("empty/inner", EntryKind::Directory, ""),
        entry("bin/link", EntryKind::Link { target: "tool".into() }, ""),
        file("deep/er/f", "x"),
    ]
}

const ALL: [&str; 9] =
    ["a", "bin", "bin/link", "bin/tool", "deep", "deep/er", "deep/er/f", "empty", "empty/inner"];

pub(super) fn a_batch_lands_whole(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(one_of_everything()).works("write")?;
    same!(scene.names()?, ALL, "what lies there");
    same!(scene.read("deep/er/f").works("read")?, b"x", "its bytes");
    Ok(())
}

pub(super) fn a_batch_keeps_modes_and_times(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(one_of_everything()).works("write")?;
    for found in scene.list()? {
        if let ListedKind::File { .. } = found.what {
            let mode = if found.path.as_bytes() == b"bin/tool" { 0o755 } else { 0o644 };
            same!((found.mode, found.mtime), (mode, MTIME), "{:?}", found.path);
        }
    }
    Ok(())
}

pub(super) fn an_empty_directory_lands(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![entry("e/mpty", EntryKind::Directory, "")]).works("write")?;
    let kinds: Vec<_> = scene.list()?.into_iter().map(|found| found.what).collect();
    same!(kinds, [ListedKind::Directory, ListedKind::Directory], "what lies there");
    scene.write(vec![entry("e/mpty", EntryKind::Directory, "")]).works("write it again")?;
    same!(scene.names()?, ["e", "e/mpty"], "the same again");
    Ok(())
}

pub(super) fn a_link_lands_as_it_is(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let link = EntryKind::Link { target: b"a\xff"[..].into() };
    scene.write(vec![entry("d/link", link, "")]).works("write")?;
    let found = scene.list()?;
    let link = found.iter().find(|found| found.path.as_bytes() == b"d/link").ok_or("no link")?;
    same!(link.what, ListedKind::Link { target: b"a\xff"[..].into() }, "what it says");
    Ok(())
}

pub(super) fn a_name_that_is_no_text_lands(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let kind = EntryKind::File { mode: 0o600, mtime: -5 };
    scene.write(vec![entry(b"\xff/\xfe", kind, "odd")]).works("write")?;
    same!(scene.read(b"\xff/\xfe").works("read")?, b"odd", "its bytes");
    same!(scene.list()?[1].mtime, -5, "a time before 1970");
    Ok(())
}

pub(super) fn bits_beyond_permissions_are_dropped(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let kind = EntryKind::File { mode: 0o6_755, mtime: MTIME };
    scene.write(vec![entry("setuid", kind, "x")]).works("write")?;
    let meta = std::fs::metadata(scene.tree().join("setuid")).works("look")?;
    same!(std::os::unix::fs::MetadataExt::mode(&meta) & 0o7_777, 0o755, "its bits");
    Ok(())
}

/// A source that counts how often it came to its end.
struct Counts {
    inner: Given,
    ended: Rc<Cell<usize>>,
}

impl EntrySource for Counts {
    fn destination(&self) -> &bailiwick_contract::input::WsPath {
        self.inner.destination()
    }

    fn kind(&self) -> EntryKind {
        self.inner.kind()
    }

    fn pull(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
        let length = self.inner.pull(buffer)?;
        self.ended.set(self.ended.get() + usize::from(length == 0));
        Ok(length)
    }
}

pub(super) fn the_gate_opens_when_every_source_was_read(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let ended = Rc::new(Cell::new(0));
    let counted = |name: &str| Counts { inner: file(name, "12345"), ended: Rc::clone(&ended) };
    let sources = [counted("a"), counted("d/b"), counted("d/c")];
    let mut entries = sources.into_iter().map(|source| Box::new(source) as Box<dyn EntrySource>);
    let mut seen = Vec::new();
    let mut gate = Does(|| {
        seen.push((ended.get(), scene.names()?));
        Ok(())
    });
    let written = scene.provider.write(&scene.id, &mut entries, false, &mut gate, &scene.cx());
    written.works("write")?;
    same!(seen, [(3, Vec::new())], "what there was at the gate");
    same!(scene.names()?.len(), 4, "what there is afterwards");
    Ok(())
}

/// A workspace with two files that a check tries to change.
fn used(case: &dyn Case) -> Result<Scene<'_>, String> {
    let scene = Scene::new(case)?;
    scene.write(vec![file("kept", "first"), file("d/kept", "first")]).works("write")?;
    Ok(scene)
}

/// Nothing of the workspace has changed.
fn as_it_was(scene: &Scene<'_>) -> Told {
    same!(scene.names()?, ["d", "d/kept", "kept"], "what lies there");
    for name in ["kept", "d/kept"] {
        same!(scene.read(name).works("read")?, b"first", "`{name}`");
    }
    Ok(())
}

pub(super) fn a_gate_that_fails_leaves_the_workspace_as_it_was(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let written = scene.write_with(one_of_everything(), false, &mut Does(shut), &scene.cx());
    refused!(written, ProviderError::Gate(_), "a shut gate");
    as_it_was(&scene)
}

pub(super) fn a_source_that_fails_leaves_the_workspace_as_it_was(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let batch = vec![file("kept", "second"), file("new/a", "a"), failing("new/b", "half")];
    let mut opened = false;
    let mut gate = Does(|| {
        opened = true;
        Ok(())
    });
    let written = scene.write_with(batch, true, &mut gate, &scene.cx());
    refused!(written, ProviderError::Peer(_), "a source that fails");
    holds!(!opened, "the gate was opened before every source was read");
    as_it_was(&scene)
}

pub(super) fn one_entry_in_the_way_undoes_all(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let batch = vec![file("a", "a"), file("new/b", "b"), file("d/kept", "second"), file("z", "z")];
    refused!(scene.write(batch), ProviderError::Exists { .. }, "one that is there");
    as_it_was(&scene)
}

pub(super) fn a_file_never_replaces_a_directory(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let written = scene.write_with(vec![file("d", "x")], true, &mut Open, &scene.cx());
    refused!(written, ProviderError::InTheWay { .. }, "a directory");
    as_it_was(&scene)
}

pub(super) fn a_directory_never_replaces_a_file(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let batch = vec![entry("kept", EntryKind::Directory, "")];
    let written = scene.write_with(batch, true, &mut Open, &scene.cx());
    refused!(written, ProviderError::InTheWay { .. }, "a file");
    let written = scene.write_with(vec![file("kept/below", "x")], true, &mut Open, &scene.cx());
    refused!(written, ProviderError::InTheWay { .. }, "something below a file");
    as_it_was(&scene)
}

pub(super) fn nothing_is_written_behind_a_link(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let outside = scene.place.home.with_file_name("outside");
    std::fs::create_dir(&outside).works("make a folder")?;
    std::fs::write(outside.join("there"), "first").works("write a file")?;
    let plant =
        |to: &std::path::Path, name: &str| std::os::unix::fs::symlink(to, scene.tree().join(name));
    plant(&outside, "out").works("plant a link")?;
    plant(&outside.join("there"), "file").works("plant a link")?;
    for name in ["out/new", "out/there", "out/new/deeper"] {
        let written = scene.write_with(vec![file(name, "second")], true, &mut Open, &scene.cx());
        holds!(written.is_err(), "`{name}` was written");
    }
    // The link itself may be replaced, or be in the way; what it leads to is never touched.
    scene.write_with(vec![file("file", "second")], true, &mut Open, &scene.cx()).ok();
    same!(folder(&outside), ["there"], "what lies outside");
    same!(std::fs::read(outside.join("there")).works("read")?, b"first", "its bytes");
    Ok(())
}

pub(super) fn overwriting_keeps_what_it_does_not_name(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let batch = vec![file("d/kept", "second"), file("d/new", "new")];
    scene.write_with(batch, true, &mut Open, &scene.cx()).works("overwrite")?;
    same!(scene.read("kept").works("read")?, b"first", "what was not named");
    same!(scene.read("d/kept").works("read")?, b"second", "what was");
    same!(scene.names()?, ["d", "d/kept", "d/new", "kept"], "what lies there");
    Ok(())
}

pub(super) fn a_refused_overwrite_leaves_the_old_bytes(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let batch = vec![file("kept", "second"), file("d", "in the way")];
    let written = scene.write_with(batch, true, &mut Open, &scene.cx());
    refused!(written, ProviderError::InTheWay { .. }, "a directory in the way");
    as_it_was(&scene)
}

pub(super) fn a_batch_over_its_budget_leaves_nothing(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let batch = || vec![file("a", vec![b'x'; 600]), file("b", vec![b'x'; 600])];
    let small = OpCx { budget_bytes: 1_000, ..scene.cx() };
    holds!(scene.write_with(batch(), false, &mut Open, &small).is_err(), "1200 bytes were written");
    as_it_was(&scene)?;
    let exact = OpCx { budget_bytes: 1_200, ..scene.cx() };
    scene.write_with(batch(), false, &mut Open, &exact).works("write exactly as much as is allowed")
}

pub(super) fn a_cancelled_batch_leaves_nothing(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let cx = scene.cx_of(&cancelled);
    let written = scene.write_with(one_of_everything(), true, &mut Open, &cx);
    refused!(written, ProviderError::Interrupted(_), "a cancelled caller");
    as_it_was(&scene)
}

pub(super) fn a_batch_after_its_deadline_leaves_nothing(case: &dyn Case) -> Told {
    let scene = used(case)?;
    let late = OpCx { deadline: Some(Duration::ZERO), ..scene.cx() };
    let written = scene.write_with(one_of_everything(), true, &mut Open, &late);
    refused!(written, ProviderError::Interrupted(_), "a caller who is late");
    as_it_was(&scene)
}

pub(super) fn an_empty_batch_changes_nothing(case: &dyn Case) -> Told {
    let scene = used(case)?;
    scene.write(Vec::new()).works("write nothing")?;
    as_it_was(&scene)
}

pub(super) fn clearing_the_stage_changes_nothing(case: &dyn Case) -> Told {
    let scene = used(case)?;
    scene.provider.clear_stage(&scene.id).works("clear the stage")?;
    as_it_was(&scene)?;
    let nobody = bailiwick_contract::id::WorkspaceId::parse("ws-nobody").expect("an id");
    scene.provider.clear_stage(&nobody).works("clear the stage of nobody")
}
