//! The store as its callers see it: one integration binary, a module for each theme.
mod concurrent;
mod files;
mod fixture;
mod model;
mod round_trip;
mod writer;
