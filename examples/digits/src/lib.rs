//! Framework-independent code for the examples on handwritten digits: data and splits, batches of
//! an epoch, the command line and program exit.

mod batches;
mod data;
mod disk;
mod faults;
mod options;
pub mod overhead;
mod plant;
mod program;
mod random;
mod training;

pub use batches::{Batches, EpochShare, Order, loader};
pub use data::{CLASSES, DataError, Digit, SIDE, Splits, digits, splits};
pub use disk::Disk;
pub use faults::Faults;
pub use options::{Options, PlantOptions, TrainerOptions};
pub use plant::Plant;
pub use program::{LossCurve, Measured, finish, refuse_early_end};
pub use random::SplitMix;
pub use training::{Loaders, test_accuracy, train_and_test};
