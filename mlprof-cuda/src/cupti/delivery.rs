//! Conversion of CUPTI records to profiler events.

use std::ffi::{CStr, c_char};

use rustc_hash::FxHashMap;

use super::calls::Calls;
use super::departure::Callers;
use super::functions::Functions;
use super::names;
use super::recent::Recent;
use super::records::{
    Api, Kernel, Marker, Memcpy, Memory, Memset, Overhead, Record, Synchronization,
};
use super::timeline::Timeline;
use crate::{devices, occupancy};
use mlprof_core::hook::{
    self, Context, DeviceActivity, DeviceEvent, DriverCall, KernelConfiguration, MemoryChange,
    MemoryDevice, PastMemoryChange, Timestamp, TimingMethod,
};
use mlprof_core::{Action, ActionKind};

/// Maximum number of events that wait for related records.
const MOST_WAITING: usize = 1 << 14;

/// Converter that combines related records and reports them to the active profiler.
pub(super) struct Delivery {
    functions: &'static Functions,
    timeline: Timeline,
    calls: Calls,
    /// Actions of kernels by mangled name.
    kernels: FxHashMap<Box<[u8]>, Action>,
    /// Open context of the thread at each call, by correlation id.
    contexts: Recent<Context>,
    /// Thread of each memory call, by correlation id.
    threads: Recent<u64>,
    events: Vec<DeviceEvent>,
    memory: Vec<(u32, PastMemoryChange)>,
    /// Bytes allocated on each device, as far as allocations were recorded.
    allocated: FxHashMap<u32, u64>,
    /// Device of each context with device work. Synchronization records contain only the context.
    devices: FxHashMap<u32, u32>,
    /// Open NVTX ranges by id: thread, start and action.
    ranges: FxHashMap<u32, (u64, Timestamp, Action)>,
    /// Number of the recording to which context numbers belong.
    recording: u32,
    /// Threads that made CUDA calls in this recording.
    pub(super) callers: Callers,
    /// Number of records in this recording.
    pub(super) records: u64,
    pub(super) lost: Lost,
}

/// Counts of records that could not be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Lost {
    /// Records that are truncated or that CUPTI could not iterate over.
    pub(super) unreadable: u64,
    /// Kernels and copies without times.
    pub(super) untimed: u64,
}

/// Returns the external correlation id for CUPTI, which combines the recording and the open
/// context.
pub(super) fn external_number(recording: u32, context: Context) -> u64 {
    (u64::from(recording) << 32) | u64::from(context.number())
}

/// NVTX domain of mlprof's own ranges.
const OWN_DOMAIN: &CStr = c"mlprof";

fn kernel_action(name: &str) -> Action {
    Action::of_kind(ActionKind::Kernel, name, None)
}

/// # Safety
///
/// `name` must be null or point to a C string with a terminating zero. The string must be valid and
/// unchanged for `'text`.
unsafe fn text<'text>(name: *const c_char) -> Option<&'text CStr> {
    // SAFETY: `name` is not null. The caller guarantees that it points to a valid C string for
    // `'text`.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

/// Location of device work, and the correlation id of its call.
struct Place {
    device: u32,
    context: u32,
    stream: u32,
    correlation: u32,
}

impl Delivery {
    pub(super) fn new(functions: &'static Functions) -> Self {
        Self {
            functions,
            timeline: Timeline::default(),
            calls: Calls::default(),
            kernels: FxHashMap::default(),
            contexts: Recent::default(),
            threads: Recent::default(),
            events: Vec::new(),
            memory: Vec::new(),
            allocated: FxHashMap::default(),
            devices: FxHashMap::default(),
            ranges: FxHashMap::default(),
            recording: 0,
            callers: Callers::default(),
            records: 0,
            lost: Lost::default(),
        }
    }

    /// Starts a recording with a new time line. Contexts of previous recordings become invalid.
    pub(super) fn begin(&mut self, recording: u32, timeline: Timeline) {
        (self.recording, self.timeline) = (recording, timeline);
        self.contexts = Recent::default();
        (self.callers, self.records) = (Callers::default(), 0);
    }

    /// # Safety
    ///
    /// The strings that the record points to must be valid C strings during the call.
    pub(super) unsafe fn record(&mut self, record: &Record) {
        self.records += 1;
        match record {
            Record::ExternalCorrelation(external) => {
                let (recording, number) =
                    ((external.external >> 32) as u32, external.external as u32);
                let is_ours = external.external_kind == super::EXTERNAL_KIND;
                if is_ours
                    && recording == self.recording
                    && let Some(context) = Context::from_number(number)
                {
                    self.contexts.insert(external.correlation, context);
                }
            }
            Record::Api(call) => self.call(call),
            // SAFETY: the caller guarantees that the record's strings are valid during the call.
            Record::Kernel(kernel) => unsafe { self.kernel(kernel) },
            Record::Memcpy(copy) => self.copy(copy),
            Record::Memset(fill) => self.fill(fill),
            Record::Memory(memory) => self.memory(memory),
            Record::Synchronization(wait) => self.wait(wait),
            Record::Overhead(overhead) => self.overhead(overhead),
            // SAFETY: the caller guarantees that the record's strings are valid during the call.
            Record::Marker(marker) => unsafe { self.marker(marker) },
            Record::Other(_) => {}
        }
        if self.events.len() + self.memory.len() >= MOST_WAITING {
            self.settle();
        }
    }

    fn call(&mut self, call: &Api) {
        self.callers.add(call.thread);
        let Some(known) = self.calls.get(self.functions, call) else { return };
        let thread = u64::from(call.thread);
        if known.is_of_memory {
            self.threads.insert(call.correlation, thread);
        }
        hook::driver_call(&DriverCall {
            action: known.action,
            thread,
            start: self.timeline.timestamp(call.start),
            end: self.timeline.timestamp(call.end),
            correlation: call.correlation,
        });
    }

    /// # Safety
    ///
    /// The kernel's name must be null or a valid C string during the call.
    unsafe fn kernel(&mut self, kernel: &Kernel) {
        // SAFETY: the caller guarantees that the name is null or a valid C string. The reference is
        // used only within this call.
        let name = unsafe { text(kernel.name) }.unwrap_or(c"unknown kernel");
        let action = self.kernel_named(name);
        let launch = occupancy::launch(
            devices::properties(kernel.device),
            kernel.grid,
            kernel.block,
            kernel.registers_per_thread,
            kernel.shared_memory(),
        );
        let place = Place {
            device: kernel.device,
            context: kernel.context,
            stream: kernel.stream,
            correlation: kernel.correlation,
        };
        let times = (kernel.start, kernel.end);
        if let Some(event) = self.event(DeviceActivity::Kernel, action, times, &place, 0) {
            event.configuration = KernelConfiguration::new(&launch);
        }
    }

    /// Returns the action of a kernel. Results are cached, because demangling is slow.
    fn kernel_named(&mut self, name: &CStr) -> Action {
        if let Some(action) = self.kernels.get(name.to_bytes()) {
            return *action;
        }
        let action = kernel_action(&names::demangled(&name.to_string_lossy()));
        self.kernels.insert(name.to_bytes().into(), action);
        action
    }

    fn copy(&mut self, copy: &Memcpy) {
        let name = names::memcpy(copy.copy_kind, copy.source_kind, copy.destination_kind);
        let place = Place {
            device: copy.device,
            context: copy.context,
            stream: copy.stream,
            correlation: copy.correlation,
        };
        let times = (copy.start, copy.end);
        self.event(DeviceActivity::Copy, kernel_action(&name), times, &place, copy.bytes);
    }

    fn fill(&mut self, fill: &Memset) {
        let place = Place {
            device: fill.device,
            context: fill.context,
            stream: fill.stream,
            correlation: fill.correlation,
        };
        let action = kernel_action(&names::memset(fill.memory_kind));
        let times = (fill.start, fill.end);
        self.event(DeviceActivity::Fill, action, times, &place, fill.bytes);
    }

    fn wait(&mut self, wait: &Synchronization) {
        let place = Place {
            device: self.devices.get(&wait.context).copied().unwrap_or(0),
            context: wait.context,
            stream: wait.stream.unwrap_or(0),
            correlation: wait.correlation,
        };
        let action = kernel_action(names::synchronization(wait.synchronization_kind));
        let times = (wait.start, wait.end);
        self.event(DeviceActivity::Synchronization, action, times, &place, 0);
    }

    /// Queues an event until its context is known. Returns `None` for a record without times.
    fn event(
        &mut self,
        activity: DeviceActivity,
        action: Action,
        (start, end): (u64, u64),
        place: &Place,
        bytes: u64,
    ) -> Option<&mut DeviceEvent> {
        if start == 0 || end < start {
            self.lost.untimed += u64::from(activity.is_device_work());
            return None;
        }
        if activity.is_device_work() {
            self.devices.insert(place.context, place.device);
        }
        let (from, to) = (self.timeline.timestamp(start), self.timeline.timestamp(end));
        self.events.push(DeviceEvent {
            activity,
            method: TimingMethod::Driver,
            device: place.device,
            stream: place.stream,
            correlation: place.correlation,
            bytes,
            driver_context: place.context,
            ..DeviceEvent::new(action, from, to)
        });
        self.events.last_mut()
    }

    fn overhead(&mut self, overhead: &Overhead) {
        let name = format!("CUDA: {}", names::overhead(overhead.overhead_kind));
        let activity = match names::is_of_kernels(overhead.overhead_kind) {
            true => DeviceActivity::Tuning,
            false => DeviceActivity::Overhead,
        };
        let start = self.timeline.timestamp(overhead.start);
        let end = self.timeline.timestamp(overhead.end.max(overhead.start));
        hook::device_event(&DeviceEvent {
            activity,
            method: TimingMethod::Driver,
            ..DeviceEvent::new(kernel_action(&name), start, end)
        });
    }

    fn memory(&mut self, memory: &Memory) {
        /// Values of `CUpti_ActivityMemoryKind` for device memory, arrays and managed memory.
        const OF_DEVICES: [u32; 3] = [3, 4, 5];
        /// Values of `CUpti_ActivityMemoryOperationType`.
        const ALLOCATED: u32 = 1;
        const RELEASED: u32 = 2;
        if !OF_DEVICES.contains(&memory.memory_kind) {
            return;
        }
        devices::properties(memory.device); // tables then say what the device is
        let allocated = self.allocated.entry(memory.device).or_default();
        let bytes = i64::try_from(memory.bytes).unwrap_or(i64::MAX);
        let bytes = match memory.operation {
            ALLOCATED => bytes,
            RELEASED => -bytes,
            _ => return,
        };
        // Memory allocated before the recording can be released in it, so the count saturates at 0.
        *allocated = allocated.saturating_add_signed(bytes);
        let change = MemoryChange {
            address: memory.address,
            bytes,
            total_allocated: *allocated,
            total_reserved: memory.pool.map_or(0, |pool| pool.size),
            device: MemoryDevice::Accelerator(memory.device as u16),
        };
        let time = self.timeline.timestamp(memory.timestamp);
        self.memory.push((memory.correlation, PastMemoryChange { time, thread: 0, change }));
    }

    /// Handles an NVTX range of another library. CUPTI reports ranges only if it is the tool that
    /// NVTX uses.
    ///
    /// # Safety
    ///
    /// The marker's name and domain must be null or valid C strings during the call.
    unsafe fn marker(&mut self, marker: &Marker) {
        const BEGINNING: u32 = 2;
        let Some(thread) = marker.thread.map(u64::from) else { return };
        let time = self.timeline.timestamp(marker.timestamp);
        if marker.flags & BEGINNING == 0 {
            if let Some((thread, start, action)) = self.ranges.remove(&marker.id) {
                let correlation = 0;
                hook::driver_call(&DriverCall { action, thread, start, end: time, correlation });
            }
            return;
        }
        // SAFETY: the caller guarantees that both strings are null or valid C strings. The
        // references are used only within this call.
        let (name, domain) = unsafe { (text(marker.name), text(marker.domain)) };
        if let Some(name) = name
            && domain != Some(OWN_DOMAIN)
            && self.ranges.len() < MOST_WAITING
        {
            let action = Action::of_kind(ActionKind::Span, &name.to_string_lossy(), None);
            self.ranges.insert(marker.id, (thread, time, action));
        }
    }

    /// Reports all queued events with the contexts and threads that are now known.
    pub(super) fn settle(&mut self) {
        for mut event in self.events.drain(..) {
            event.context = self.contexts.get(event.correlation);
            hook::device_event(&event);
        }
        for (correlation, mut change) in self.memory.drain(..) {
            change.thread = self.threads.get(correlation).unwrap_or(0);
            hook::past_memory(&change);
        }
    }
}
