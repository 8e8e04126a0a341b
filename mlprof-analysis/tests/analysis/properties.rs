//! Properties of all traces.

use mlprof_analysis::{Analysis, kineto};
use proptest::prelude::*;

use crate::synthetic::{MAIN, OTHER, action, arrow, json, slice, with};

#[derive(Debug, Clone)]
struct RandomSlice {
    place: usize,
    kind: usize,
    start: u32,
    duration: u32,
    correlation: u32,
}

const PLACES: [(u32, u32); 4] = [MAIN, OTHER, (0, 7), (0, 8)];
const ON_HOST: [(&str, &str); 6] = [
    ("cpu_op", "aten::mm"),
    ("user_annotation", "forward"),
    ("user_annotation", "train_dataloader_next"),
    ("cuda_runtime", "cudaLaunchKernel"),
    ("cuda_runtime", "cudaDeviceSynchronize"),
    ("cuda_runtime", "cudaMemcpy"),
];
const ON_DEVICE: [(&str, &str); 3] =
    [("kernel", "gemm"), ("kernel", "ncclDevKernel_AllReduce"), ("gpu_memcpy", "Memcpy HtoD")];

fn made() -> impl Strategy<Value = RandomSlice> {
    (0..4_usize, 0..6_usize, 0_u32..400, 0_u32..80, 0_u32..12).prop_map(
        |(place, kind, start, duration, correlation)| RandomSlice {
            place,
            kind,
            start,
            duration,
            correlation,
        },
    )
}

fn text(made: &RandomSlice) -> String {
    let (category, name) =
        if made.place < 2 { ON_HOST[made.kind] } else { ON_DEVICE[made.kind % ON_DEVICE.len()] };
    let correlation = if name.ends_with("Synchronize") { 0 } else { made.correlation };
    let args = match category {
        "cpu_op" | "user_annotation" => "{}".to_owned(),
        _ => format!(r#"{{"correlation":{correlation}}}"#),
    };
    let times = (f64::from(made.start), f64::from(made.duration));
    with(PLACES[made.place], category, name, times, &args)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Checks that the parts add up for events in any order, including crossing and simultaneous
    /// ones.
    #[test]
    fn parts_add_up(
        events in proptest::collection::vec(made(), 0..60),
        links in proptest::collection::vec((0_u32..400, 0_u32..400), 0..4),
    ) {
        let mut all: Vec<String> = events.iter().map(text).collect();
        let bounds = [0.0, 90.0, 210.0, 211.0, 420.0];
        for (number, pair) in bounds.windows(2).enumerate() {
            all.push(action(&format!("ProfilerStep#{number}"), pair[0], pair[1] - pair[0]));
        }
        for (id, (from, to)) in (1..).zip(&links) {
            all.push(arrow(id, (MAIN, f64::from(*from)), (OTHER, f64::from(*to))));
            all.push(arrow(id + 100, (OTHER, f64::from(*to)), (MAIN, f64::from(*from))));
        }
        let trace = kineto::read(json(&all).as_bytes()).expect("a trace");
        prop_assert_eq!(trace.slices.len(), events.len() + 4);
        let analysis = Analysis::of(&trace);
        prop_assert_eq!(analysis.steps.len(), 4);
        for (step, path) in analysis.steps.iter().zip(&analysis.critical_paths) {
            let parts: i64 = step.parts.iter().map(|part| part.duration_ns).sum();
            prop_assert_eq!(parts, step.duration_ns);
            prop_assert_eq!(path.length_ns, step.duration_ns);
            prop_assert!(step.waiting_for_data_ns <= step.duration_ns);
            let mut now = 0;
            for segment in &path.segments {
                prop_assert_eq!(segment.start_ns, now);
                prop_assert!(segment.duration_ns > 0);
                now += segment.duration_ns;
            }
        }
        for thread in &analysis.threads {
            let waiting = thread.waiting_for_device_ns + thread.waiting_for_data_ns;
            prop_assert_eq!(thread.busy_ns + waiting + thread.idle_ns, thread.window_ns);
        }
        for device in &analysis.devices {
            let it = &device.times;
            let idle = it.idle_before_ns + it.idle_between_ns + it.idle_after_ns;
            let busy = it.compute_ns + it.exposed_communication_ns + it.exposed_memory_ns;
            prop_assert_eq!(idle + busy, it.window_ns);
            for stream in &device.streams {
                let idle = stream.waiting_for_host_ns + stream.launch_delay_ns;
                let idle = idle + stream.between_kernels_ns + stream.other_ns;
                let waits = stream.waiting_for_communication_ns + stream.waiting_for_compute_ns;
                let idle = idle + waits + stream.waiting_for_memory_ns;
                prop_assert_eq!(idle + stream.busy_ns, stream.span_ns);
            }
        }
        // The self times add up to the time in which a slice is open on a thread.
        let own: i64 = analysis.names.iter().map(|row| row.self_ns).sum();
        let mut open = [[false; 600]; 2];
        for track in &trace.tracks {
            let thread = match track.number { Some(100) => 0, Some(101) => 1, _ => continue };
            for slice in trace.of_track(track) {
                let microseconds = (slice.start / 1000) as usize..(slice.end() / 1000) as usize;
                open[thread][microseconds].fill(true);
            }
        }
        let open = open.iter().flatten().filter(|is_open| **is_open).count() as i64 * 1000;
        prop_assert_eq!(own, open);
    }

    #[test]
    fn no_text_takes_it_down(text in any::<Vec<u8>>(), cut in 0_usize..2000) {
        let _ = kineto::read(text.as_slice());
        let whole = json(&[slice(MAIN, "cpu_op", "a", 0.0, 1.0), slice(MAIN, "cpu_op", "é\\u0001", 2.0, 1.0)]);
        if let Ok(trace) = kineto::read(&whole.as_bytes()[..cut.min(whole.len())]) {
            let _ = Analysis::of(&trace).text(10);
        }
    }
}
