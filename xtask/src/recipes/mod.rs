//! The table of recipes: a recipe is one file here and one row.

mod bench;
mod bench_worker;
mod conformance;
mod crash;
mod dist;
mod help;
mod schemas;

use crate::failure::Failure;

/// One `cargo xtask NAME`.
struct Recipe {
    /// What is typed.
    name: &'static str,
    /// The flags that it takes.
    flags: &'static str,
    /// What it does, in one line; empty for a recipe that only another recipe calls.
    about: &'static str,
    /// Does it.
    run: fn(&[String]) -> Result<(), Failure>,
}

/// Every recipe, as `help` lists them.
const RECIPES: &[Recipe] = &[
    Recipe {
        name: "dist",
        flags: "[--probe]",
        about: "build the static binaries that are shipped; print their paths",
        run: dist::run,
    },
    Recipe {
        name: "schemas",
        flags: "[--check]",
        about: "write schemas/ from the types of the contract; --check fails when they differ",
        run: schemas::run,
    },
    Recipe {
        name: "bench",
        flags: "[--runs N] [--only NAME] [--check] [--save]",
        about: "measure against the peers (benches/README.md); --check fails above a bar",
        run: bench::run,
    },
    Recipe {
        name: "crash",
        flags: "[--only CASE] [--user root|ordinary|all] [--jobs N] [--list] [--verbose]",
        about: "kill caller, supervisor and init at every append and effect; check what is found",
        run: crash::run,
    },
    Recipe {
        name: "conformance",
        flags: "",
        about: "run the suite of promises over every provider; print a table",
        run: conformance::run,
    },
    Recipe { name: "help", flags: "", about: "list the recipes", run: help::run },
    Recipe { name: "bench-worker", flags: "", about: "", run: bench_worker::run },
];

/// Runs the recipe called `name` with the words behind it.
///
/// # Errors
/// When there is no such recipe, or what the recipe met.
pub(crate) fn run(name: &str, words: &[String]) -> Result<(), Failure> {
    let recipe = RECIPES
        .iter()
        .find(|recipe| recipe.name == name)
        .ok_or_else(|| Failure::new("no such recipe; `cargo xtask help` lists them"))?;
    (recipe.run)(words)
}

#[cfg(test)]
mod tests {
    use super::RECIPES;

    #[test]
    fn every_recipe_has_a_name_of_its_own() {
        let mut names: Vec<_> = RECIPES.iter().map(|recipe| recipe.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RECIPES.len());
    }
}
