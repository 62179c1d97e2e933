//! Nothing that leaves a provider says how it is built: no handle, no path of the home, no opaque token.
//!
//! The walk is over the wire form of what is stored and over the debug form of all the rest, key by key and text by text.
use super::acts::{ABSENT, FAILS, HELLO, TALKS};
use super::scene::{Case, Scene, file};
use super::verdict::{Told, Works, holds};
use serde_json::Value;
use std::fmt::Debug;

/// What no key may contain: the words of engines.
const WORDS: [&str; 22] = [
    "container",
    "docker",
    "podman",
    "image",
    "volume",
    "mount",
    "socket",
    "daemon",
    "engine",
    "handle",
    "pidfd",
    "descriptor",
    "hostconfig",
    "overlay",
    "layer",
    "snapshotter",
    "runc",
    "cgroup_path",
    "netns",
    "lockfile",
    "tmpdir",
    "supervisor_pid",
];

/// What no text may contain: places of this host and of engines.
const FRAGMENTS: [&str; 8] =
    ["/proc/", "/sys/fs", "/run/", ".sock", "docker://", "unix://", "/dev/fd", "pipe:["];

/// Where 64 hex digits are what they say they are.
const DIGESTS: [&str; 2] = ["sha256", "digest"];

pub(super) fn walk(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("d/a", "a")]).works("write")?;
    let mut walk = Walk { home: scene.place.home.to_string_lossy().into_owned() };
    let cx = scene.cx();
    for act in [HELLO, FAILS, ABSENT] {
        let job = scene.job(act);
        let done = scene.run(&job)?;
        walk.stored("an outcome", &serde_json::to_value(&done.outcome).works("write it")?)?;
        walk.said("what is recovered", &scene.recover(&job.id)?)?;
    }
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    walk.said("a job in flight", &scene.recover(&job.id)?)?;
    walk.said(
        "a hold",
        &scene
            .provider
            .hold(&scene.id, bailiwick_contract::provider::Slots::One(1))
            .works("ask")?
            .is_some(),
    )?;
    walk.said(
        "a stop",
        &scene.provider.stop(&job.id, core::time::Duration::ZERO, &cx).works("stop")?,
    )?;
    let capabilities = scene.provider.capabilities(&cx).works("probe")?;
    walk.stored("the capabilities", &serde_json::to_value(&capabilities).works("write it")?)?;
    walk.stored("the policy", &serde_json::to_value(&scene.policy).works("write it")?)?;
    walk.said("the profile", &scene.provider.profile(None, &cx).works("profile")?)?;
    walk.said("a look", &scene.provider.inspect(&scene.id, &cx).works("inspect")?)?;
    walk.said("a listing", &scene.list()?)?;
    walk.said("the outputs", &scene.provider.kept_outputs(&cx).works("list outputs")?)?;
    walk.said("a refusal", &scene.read("nothing"))?;
    let orphans = scene.provider.remove_orphans(&|_| false, core::time::Duration::ZERO, &cx);
    walk.said("what is left over", &orphans.works("look for leftovers")?)?;
    walk.said("a removal", &scene.provider.remove(&scene.id, &cx).works("remove")?)
}

struct Walk {
    home: String,
}

impl Walk {
    /// Walks what is stored.
    fn stored(&self, what: &str, value: &Value) -> Told {
        match value {
            Value::Object(entries) => entries.iter().try_for_each(|(key, value)| {
                self.key(what, key)?;
                let is_digest = DIGESTS.contains(&key.as_str());
                if is_digest { Ok(()) } else { self.stored(what, value) }
            }),
            Value::Array(values) => values.iter().try_for_each(|value| self.stored(what, value)),
            Value::String(text) => self.text(what, text),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// Walks what is said: each word before a colon is a key.
    fn said(&mut self, what: &str, value: &dyn Debug) -> Told {
        let text = format!("{value:?}");
        for part in text.split([' ', '{', '(', ',', '[']) {
            if let Some(key) = part.strip_suffix(':') {
                self.key(what, key)?;
            }
        }
        // A digest is told after its key.
        let mut plain = text;
        for key in DIGESTS {
            while let Some(at) = plain.find(&format!("{key}: ")) {
                let end = plain[at..].find([',', '}']).map_or(plain.len(), |end| at + end);
                plain.replace_range(at..end, "");
            }
        }
        self.text(what, &plain)
    }

    fn key(&self, what: &str, key: &str) -> Told {
        let lower = key.to_ascii_lowercase();
        let found = WORDS.iter().find(|word| lower.contains(**word));
        holds!(found.is_none(), "{what} has the key `{key}`");
        Ok(())
    }

    fn text(&self, what: &str, text: &str) -> Told {
        let found = FRAGMENTS.iter().find(|fragment| text.contains(**fragment));
        holds!(found.is_none(), "{what} says `{text}`");
        holds!(!text.contains(&self.home), "{what} names the home: `{text}`");
        let is_opaque =
            |word: &str| word.len() >= 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let opaque = text.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| is_opaque(word));
        holds!(opaque.is_none(), "{what} has an opaque token: `{text}`");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_back_end_is_found() {
        let mut walk = Walk { home: "/home/x/state".into() };
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let hex = "0123456789abcdef".repeat(4);
        for bad in [
            r#"{"a": [{"container_id": 1}]}"#.to_owned(),
            r#"{"a": "see /proc/1/ns/net"}"#.to_owned(),
            r#"{"a": "in /home/x/state/jobs"}"#.to_owned(),
            format!(r#"{{"a": "{hex}"}}"#),
        ] {
            assert!(walk.stored("it", &json(&bad)).is_err(), "{bad}");
        }
        assert!(walk.stored("it", &json(&format!(r#"{{"sha256": "{hex}"}}"#))).is_ok());
        #[derive(Debug)]
        #[expect(dead_code, reason = "only its debug form is looked at")]
        struct Handle {
            socket: u8,
        }
        assert!(walk.said("it", &Handle { socket: 1 }).is_err());
        assert!(walk.said("it", &Some(3)).is_ok());
    }
}
