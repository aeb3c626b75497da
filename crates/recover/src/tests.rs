//! Tests with forked processes, which die at each announced step and at random instants.

mod burials;
mod deaths;
mod kills;
mod parts;
mod world;
