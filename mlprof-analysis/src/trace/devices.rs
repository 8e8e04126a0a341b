//! Devices that can only be recognised by names. XProf (JAX, TensorFlow), TensorFlow's timeline,
//! Ascend and PyTorch's older profiler write no categories.

use rustc_hash::FxHashMap;

use super::names::without_library_prefix;
use super::{Category, Slice, TraceBuilder, TrackKind};

/// Kind of a process, recognised by its name.
#[derive(Clone, Copy)]
enum Device {
    /// A device whose streams are tracks.
    Streams(i64),
    /// A TPU, which has one track of ops.
    Ops(i64),
    /// A device on which every track is a stream.
    All(i64),
    /// Tracks that a tool derived from other tracks.
    Derived,
    /// Calls of a device's library.
    Library,
}

impl TraceBuilder {
    /// Recognises devices and library calls by their names if slices have no categories.
    pub(crate) fn recognise_devices(&mut self) {
        let mut ascend = 0;
        let mut devices: FxHashMap<u32, Device> = FxHashMap::default();
        for (place, raw) in (0..).zip(&mut self.processes) {
            let name = self.names.text(raw.process.name);
            let Some(device) = of_process(name, &mut ascend) else { continue };
            if let Device::Streams(number) | Device::Ops(number) | Device::All(number) = device {
                raw.process.number = Some(number);
            }
            devices.insert(place, device);
        }
        let mut streams = vec![false; self.tracks.len()];
        for (place, track) in self.tracks.iter_mut().enumerate() {
            let Some(device) = devices.get(&track.process) else { continue };
            if track.kind.is_some() || track.has_device_work || track.has_host_work {
                continue;
            }
            let name = self.names.text(track.name);
            let is_stream = match device {
                Device::Streams(_) => begins(name, "stream"),
                Device::Ops(_) => name == "XLA Ops",
                Device::All(_) => true,
                Device::Derived => false,
                Device::Library => continue,
            };
            streams[place] = is_stream;
            track.kind = Some(if is_stream { TrackKind::Stream } else { TrackKind::Other });
        }
        let work = self.names.map(work);
        let calls = self.names.map(is_call);
        for slice in &mut self.slices {
            let is_untold = slice.category == Category::Other;
            let process = self.tracks[slice.track as usize].process;
            match devices.get(&process) {
                _ if !is_untold => {}
                Some(Device::Library) if slice.correlation != 0 => {
                    slice.category = Category::CudaRuntime;
                }
                Some(_) if streams[slice.track as usize] => slice.category = work[slice.name],
                None if slice.correlation != 0 && calls[slice.name] => {
                    slice.category = Category::CudaRuntime;
                }
                _ => {}
            }
        }
    }

    /// Records which tracks have host work and which have device work. It runs after all categories
    /// are final.
    pub(super) fn note_sides(&mut self) {
        for Slice { track, category, .. } in &self.slices {
            let track = &mut self.tracks[*track as usize];
            track.has_device_work |= category.is_on_device();
            track.has_host_work |= category.is_on_host();
        }
    }
}

fn begins(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len()).is_some_and(|it| it.eq_ignore_ascii_case(beginning))
}

fn of_process(name: &str, ascend: &mut i64) -> Option<Device> {
    let number_after = |mark: &str| -> Option<i64> {
        let (_, after) = name.split_once(mark)?;
        let digits = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        after[..digits].parse().ok()
    };
    let is_total = name.contains("stream:all") || name.ends_with("(Tensors)");
    let of_gpu = number_after("/device:GPU:").or_else(|| number_after("/gpu:"));
    match (of_gpu, name) {
        (Some(_), _) if is_total => Some(Device::Derived),
        (Some(number), _) if name.contains("/stream:") => Some(Device::All(number)),
        // TensorFlow's timeline shows here the work that the host enqueued for a device.
        (Some(_), _) if name.ends_with(" Compute") => Some(Device::Derived),
        (Some(number), _) => Some(Device::Streams(number)),
        (None, "CUDA functions") => Some(Device::All(0)),
        (None, "Ascend Hardware") => {
            *ascend += 1;
            Some(Device::Streams(*ascend - 1))
        }
        (None, "Overlap Analysis" | "Communication" | "HCCL") => Some(Device::Derived),
        (None, "CANN") => Some(Device::Library),
        (None, _) => number_after("/device:TPU:").map(Device::Ops),
    }
}

/// Returns the category of a stream's slice from its name.
fn work(name: &str) -> Category {
    let name = name.to_ascii_lowercase();
    match () {
        () if name.contains("memcpy") => Category::GpuMemcpy,
        () if name.contains("memset") => Category::GpuMemset,
        // These are waits between Ascend streams.
        () if ["event_wait", "event_record", "notify_wait", "notify wait", "notify_record"]
            .iter()
            .any(|wait| name.starts_with(wait)) =>
        {
            Category::CudaSync
        }
        () => Category::Kernel,
    }
}

/// Returns `true` if a name is that of a CUDA or HIP library function.
fn is_call(name: &str) -> bool {
    let rest = without_library_prefix(name);
    rest.and_then(|rest| rest.chars().next()).is_some_and(|letter| letter.is_ascii_uppercase())
}
