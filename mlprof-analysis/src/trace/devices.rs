//! Devices that only names tell: traces of XProf (JAX, TensorFlow), of TensorFlow's timeline, of
//! Ascend, and of PyTorch's older profiler have no categories.

use rustc_hash::FxHashMap;

use super::names::without_library_prefix;
use super::{Category, Slice, TraceBuilder, TrackKind};

/// What a process is, by its name.
#[derive(Clone, Copy)]
enum Device {
    /// A device whose streams are tracks.
    Streams(i64),
    /// A TPU, which has one line of ops.
    Ops(i64),
    /// A device all of whose tracks are streams.
    All(i64),
    /// What a tool computed from the other tracks.
    Derived,
    /// Calls of a device's library.
    Library,
}

impl TraceBuilder {
    /// Finds devices and calls of their libraries by names, where slices have no categories.
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

    /// Whether two tracks would hold the same slices is decided by categories: they are complete
    /// now.
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
        // TensorFlow's timeline draws what the host handed to a device there.
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

/// Kind of a stream's slice by its name.
fn work(name: &str) -> Category {
    let name = name.to_ascii_lowercase();
    match () {
        () if name.contains("memcpy") => Category::GpuMemcpy,
        () if name.contains("memset") => Category::GpuMemset,
        // Ascend's streams wait for each other.
        () if ["event_wait", "event_record", "notify_wait", "notify wait", "notify_record"]
            .iter()
            .any(|wait| name.starts_with(wait)) =>
        {
            Category::CudaSync
        }
        () => Category::Kernel,
    }
}

/// Whether a name is that of a function of CUDA's or HIP's library.
fn is_call(name: &str) -> bool {
    let rest = without_library_prefix(name);
    rest.and_then(|rest| rest.chars().next()).is_some_and(|letter| letter.is_ascii_uppercase())
}
