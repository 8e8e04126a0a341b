//! Common types of hooks, profilers, reports and traces: actions, ops and events, and the handling
//! of time, threads and forks that all of them need. The crate does not depend on its users.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod action;
mod before_main;
#[doc(hidden)]
pub mod clock;
mod clock_reading;
mod communication;
mod context;
mod counter;
mod debug;
mod description;
mod device;
#[doc(hidden)]
pub mod environment;
#[cfg(unix)]
#[doc(hidden)]
pub mod errno;
#[doc(hidden)]
pub mod error_chain;
#[doc(hidden)]
pub mod evaluation;
#[doc(hidden)]
pub mod files;
#[doc(hidden)]
pub mod forking;
mod framework;
mod group_by;
mod host_tensor;
mod interest;
mod kernel;
#[doc(hidden)]
#[cfg(feature = "live")]
pub mod live;
mod memory;
mod module_place;
#[doc(hidden)]
pub mod names;
mod numerics;
mod observation;
mod op;
#[doc(hidden)]
pub mod open_scopes;
mod order;
#[doc(hidden)]
pub mod own_thread;
#[doc(hidden)]
pub mod panics;
mod phase;
mod process_id;
#[doc(hidden)]
pub mod progress;
mod region;
#[doc(hidden)]
pub mod run;
mod run_context;
mod schedule;
mod shapes;
mod source_hash;
mod stage;
mod stages;
#[doc(hidden)]
pub mod startup;
#[doc(hidden)]
pub mod sync;
mod tallies;
mod text;
mod thread_name;
mod timestamp;
mod training_control;
mod unattributed;
mod uncounted;
mod utc_time;
#[doc(hidden)]
pub mod work;

pub use action::{Action, ActionKind, SourceLocation};
pub use context::Context;
pub use counter::{CounterSample, DeviceCounter};
pub use device::{DeviceActivity, DeviceEvent, DriverCall, PastMemoryChange, TimingMethod};
pub use framework::Framework;
pub use group_by::GroupBy;
pub use interest::Interest;
pub use kernel::KernelConfiguration;
pub use memory::{MemoryCategory, MemoryChange, MemoryDevice, MemoryLabel};
pub use numerics::{ObservedTensor, TensorRole};
pub use observation::Observation;
pub use op::{Direction, OpStart};
pub use phase::Phase;
pub use run_context::RunContext;
pub use schedule::{Schedule, ScheduleError};
pub use shapes::{DType, InputsBuilder, ShapeList, TensorShape};
pub use stage::Stage;
pub use tallies::Tallies;
pub use timestamp::Timestamp;
pub use training_control::TrainingControl;
pub use utc_time::{ParseTimeError, UtcTime};

#[doc(hidden)]
pub use action::Callsite;
#[doc(hidden)]
pub use clock_reading::ClockReading;
#[doc(hidden)]
pub use context::{ContextTable, OpenActions};
#[doc(hidden)]
pub use description::{
    DeviceDescription, declare_device_memory, describe_device, descriptions, device_memory,
    platform,
};
#[doc(hidden)]
pub use evaluation::EvaluatedOutputs;
#[doc(hidden)]
pub use framework::{
    ask_frameworks, declare_device, declare_evaluated_outputs, declare_framework, frameworks,
};
#[doc(hidden)]
pub use host_tensor::{AllNumbers, HostTensor, LEAST_NORMAL_F16};
#[doc(hidden)]
pub use interest::{interest_changes, note_interest_change};
#[doc(hidden)]
pub use kernel::KernelLaunch;
#[doc(hidden)]
pub use module_place::{declare_module_place, module_place};
#[doc(hidden)]
pub use numerics::{
    NumberReader, Reduced, ReducedNumbers, Reduction, TensorNumbers, strided_offsets,
};
#[doc(hidden)]
pub use order::OrderExt;
#[doc(hidden)]
pub use process_id::{process_id, program_name};
#[doc(hidden)]
pub use region::{RegionSink, RegionSinks};
#[doc(hidden)]
pub use schedule::StepPhase;
#[doc(hidden)]
pub use shapes::{InputDetail, InputDetails, Number, ShapeCache};
#[doc(hidden)]
pub use source_hash::source_hash;
#[doc(hidden)]
pub use stages::{Ended, OfStage, Stages};
#[doc(hidden)]
pub use text::Text;
#[doc(hidden)]
pub use thread_name::ThreadName;
#[doc(hidden)]
pub use unattributed::{UnattributedReason, UnattributedWork, WorkCounts};
#[doc(hidden)]
pub use uncounted::{is_uncounted, uncounted};
