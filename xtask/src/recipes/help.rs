//! `help`: lists the recipes with a line each.

use super::RECIPES;
use crate::failure::Failure;
use crate::options::Options;

/// Prints the table of recipes.
pub(super) fn run(words: &[String]) -> Result<(), Failure> {
    Options::new(words).finish()?;
    println!("cargo xtask RECIPE [FLAGS]\n");
    for recipe in RECIPES.iter().filter(|recipe| !recipe.about.is_empty()) {
        println!("  {:<8} {}", recipe.name, recipe.about);
        if !recipe.flags.is_empty() {
            println!("           {}", recipe.flags);
        }
    }
    Ok(())
}
