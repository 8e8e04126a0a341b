//! The vocabulary that hooks, profilers, reports and traces have in common: what an action, an op and an
//! event is, and what of time, threads and forks all of them need. It knows nobody who uses it.

pub mod action;
pub(crate) mod clock;
mod context;
mod counter;
mod description;
mod device;
#[cfg(unix)]
pub(crate) mod errno;
pub(crate) mod forking;
mod group_by;
mod interest;
mod kernel;
mod memory;
pub mod names;
mod op;
pub(crate) mod open_scopes;
pub(crate) mod own_thread;
mod phase;
mod region;
mod run_context;
mod schedule;
mod shapes;
mod stage;
pub mod startup;
pub(crate) mod sync;
mod tallies;
mod text;
mod thread_name;
mod timestamp;
mod unbound;
mod uncounted;

pub use action::{Action, ActionKind, Callsite, SourceLocation};
pub use context::Context;
pub use counter::{CounterSample, DeviceCounter};
pub use description::{DeviceDescription, describe_device};
pub use device::{DeviceActivity, DeviceEvent, DriverCall, PastMemoryChange, TimingMethod};
pub use group_by::GroupBy;
pub use interest::Interest;
pub use kernel::{KernelConfiguration, KernelLaunch};
pub use memory::{MemoryCategory, MemoryChange, MemoryDevice, MemoryLabel};
pub use op::{Direction, OpStart};
pub use phase::Phase;
pub use region::RegionSink;
pub use run_context::RunContext;
pub use schedule::{InvalidSchedule, ParseScheduleError, Schedule, StepPhase};
pub use shapes::{DType, InputsBuilder, ShapeList, TensorShape};
pub use stage::Stage;
pub use tallies::Tallies;
pub use timestamp::Timestamp;
pub use unbound::Unbound;

pub(crate) use context::{ContextTable, OpenActions};
pub(crate) use description::{description, platform};
pub(crate) use shapes::ShapeCache;
pub(crate) use text::Text;
pub(crate) use thread_name::ThreadName;
pub(crate) use unbound::WorkCounts;
pub(crate) use uncounted::{is_uncounted, uncounted};
