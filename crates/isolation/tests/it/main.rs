//! The isolation crate from outside: plans as values, what apply does with them, frames, roots. Nothing here needs privileges.

mod apply;
mod explained;
mod frames;
mod hosts;
mod plans;
mod properties;
mod skeletons;
