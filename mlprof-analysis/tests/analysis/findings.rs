//! Finding rules, each tested with an injected fault and without it.

use mlprof_analysis::page::Page;
use mlprof_analysis::{Analysis, kineto};
use mlprof_report::finding::{Confidence, Finding};
use mlprof_report::findings::Outcome;

/// Builder of a trace's events. Times are microseconds.
#[derive(Default)]
struct TraceBuilder {
    events: Vec<String>,
    launches: u32,
}

impl TraceBuilder {
    fn add(&mut self, place: (u32, u32), category: &str, name: &str, time: (u32, u32), args: &str) {
        let ((pid, tid), (ts, dur)) = (place, time);
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        ));
    }

    fn host(&mut self, category: &str, name: &str, ts: u32, dur: u32) {
        self.add((100, 100), category, name, (ts, dur), "");
    }

    /// Creates a trace with steps of 10 ms each.
    fn steps(count: u32) -> Self {
        let mut made = Self::default();
        for step in 0..count {
            made.host("user_annotation", &format!("ProfilerStep#{step}"), step * 10_000, 10_000);
        }
        made
    }

    /// Adds device work and its launch call of 5 µs.
    fn work(
        &mut self,
        place: (u32, u32),
        category: &str,
        name: &str,
        launch: u32,
        time: (u32, u32),
    ) {
        self.launches += 1;
        let correlation = format!(r#""correlation":{}"#, self.launches);
        self.add((100, 100), "cuda_runtime", "cudaLaunchKernel", (launch, 5), &correlation);
        self.add(place, category, name, time, &correlation);
    }

    /// Adds a kernel of device 0 that was launched at the beginning of its step.
    fn kernel(&mut self, name: &str, ts: u32, dur: u32) {
        let launch = ts / 10_000 * 10_000 + 1;
        self.work((0, 7), "kernel", name, launch, (ts, dur));
    }

    fn analysis(&self) -> Analysis {
        let json = format!(r#"{{"traceEvents":[{}]}}"#, self.events.join(","));
        Analysis::of(&kineto::read(json.as_bytes()).expect("a trace"))
    }
}

/// Returns three steps with a device that computes all the time.
fn healthy() -> TraceBuilder {
    let mut made = TraceBuilder::steps(3);
    for step in 0..3 {
        for part in 0..9 {
            made.kernel(&format!("gemm_{part}"), step * 10_000 + 100 + part * 1_100, 1_100);
        }
        made.host("cuda_runtime", "cudaDeviceSynchronize", step * 10_000 + 200, 9_795);
    }
    made
}

fn outcome(made: &TraceBuilder, rule: &str) -> Outcome {
    let explanations = made.analysis().explain();
    let explanation = explanations.into_iter().find(|one| one.rule == rule);
    explanation.expect("there is such a rule").outcome
}

#[track_caller]
fn found(made: &TraceBuilder, rule: &str) -> Finding {
    let Outcome::Found(findings) = outcome(made, rule) else {
        panic!("{:?}", outcome(made, rule));
    };
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert!(!finding.remedy.is_empty() && !finding.evidence.is_empty());
    assert!(made.analysis().findings.contains(finding));
    finding.clone()
}

#[track_caller]
fn is_healthy(made: &TraceBuilder, rule: &str) {
    assert!(matches!(outcome(made, rule), Outcome::Healthy(_)), "{:?}", outcome(made, rule));
}

#[track_caller]
fn costs(finding: &Finding, seconds: f64) {
    let cost = finding.cost.seconds;
    assert!((cost - seconds).abs() < 1e-9, "{finding:?}");
}

#[test]
fn a_healthy_trace_says_which_rules_found_nothing() {
    let analysis = healthy().analysis();
    assert_eq!(analysis.findings, []);
    let text = analysis.text(3);
    assert!(text.contains("No findings from data-waiting, device-idle"), "{text}");
    assert!(!text.contains("slow-collectives"), "the trace has none: {text}");
}

#[test]
fn a_trace_of_a_moment_says_too_little() {
    let mut made = TraceBuilder::default();
    made.host("user_annotation", "ProfilerStep#0", 0, 500);
    made.host("user_annotation", "train_dataloader_next", 0, 400);
    let Outcome::NoInputs(missing) = outcome(&made, "data-waiting") else { panic!() };
    assert!(missing.contains("the rules need at least"), "{missing}");
    assert_eq!((made.analysis().findings, made.analysis().checked_rules), (vec![], vec![]));
}

#[test]
fn waiting_for_data() {
    let mut made = healthy();
    is_healthy(&made, "data-waiting");
    made.host("user_annotation", "[_TrainingEpochLoop].train_dataloader_next", 29_996, 4);
    is_healthy(&made, "data-waiting");
    let mut made = TraceBuilder::steps(3);
    for step in 0..3 {
        made.host("user_annotation", "train_dataloader_next", step * 10_000, 4_000);
        made.kernel("gemm", step * 10_000 + 4_100, 5_800);
    }
    let finding = found(&made, "data-waiting");
    costs(&finding, 0.012);
    assert_eq!(finding.cost.seconds_per_step, Some(0.004));
    assert_eq!(finding.sentence, "Steps wait for data for 12.0 ms of 30.0 ms (40.00 %).");
    let text = made.analysis().text(3);
    let line = "Finding: Steps wait for data for 12.0 ms of 30.0 ms (40.00 %). Up to 12.0 ms (40.00 %) can be \
                saved";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_device_that_the_host_keeps_waiting() {
    let mut made = TraceBuilder::steps(3);
    for step in 0..3 {
        for op in 0..5 {
            let ts = step * 10_000 + op * 2_000;
            made.host("cpu_op", "aten::mm", ts, 1_900);
            made.work((0, 7), "kernel", "gemm", ts + 1_800, (ts + 1_810, 150));
        }
    }
    let finding = found(&made, "device-idle");
    costs(&finding, 0.030 - 15.0 * 150e-6);
    assert!(
        finding.sentence.starts_with("Device 0 is idle in 92.50 % of the step time"),
        "{finding:?}"
    );
    is_healthy(&healthy(), "device-idle");
    // The host waits for data, and the device does not wait for the host.
    let mut made = TraceBuilder::steps(1);
    made.host("user_annotation", "train_dataloader_next", 0, 8_000);
    made.work((0, 7), "kernel", "gemm", 8_100, (8_110, 1_800));
    is_healthy(&made, "device-idle");
}

#[test]
fn steps_that_wait_for_the_device_again_and_again() {
    let planted = |waits: u32| {
        let mut made = TraceBuilder::steps(3);
        let length = 10_000 / waits;
        for place in 0..3 * waits {
            let ts = place * length;
            made.work(
                (0, 7),
                "kernel",
                "gemm",
                ts + length / 2,
                (ts + length / 2 + 10, length / 2 - 30),
            );
            made.host(
                "cuda_runtime",
                "cudaStreamSynchronize",
                ts + length / 2 + 6,
                length / 2 - 20,
            );
        }
        made
    };
    let finding = found(&planted(5), "synchronising-calls");
    assert!(
        finding.sentence.starts_with("Each step waits for the device 5.0 times"),
        "{finding:?}"
    );
    assert_eq!(finding.place.op.as_deref(), Some("cudaStreamSynchronize"));
    is_healthy(&planted(1), "synchronising-calls");
    is_healthy(&healthy(), "synchronising-calls");
}

/// Adds an all-reduce of eight ranks with `elements` elements of four bytes.
fn reduce(made: &mut TraceBuilder, (ts, dur): (u32, u32), elements: u32) {
    let args = format!(
        r#""Collective name":"allreduce","dtype":"Float","In msg nelems":{elements},"Out msg nelems":{elements},"Group size":8"#
    );
    made.add((0, 9), "kernel", "ncclDevKernel_Generic", (ts, dur), &args);
}

#[test]
fn communication_that_nothing_hides() {
    let mut made = TraceBuilder::steps(1);
    made.kernel("gemm", 100, 3_000);
    reduce(&mut made, (3_200, 6_600), 3_300_000);
    let finding = found(&made, "exposed-communication");
    costs(&finding, 0.0066);
    // 13.2 MB in 6.6 ms are 2 GB/s, and the bus bandwidth is 7/4 of that.
    let sentence = "Exposed communication takes 66.00 % of the step time on device 0; all-reduces of 12.59 \
                    MiB reach 3.5 GB/s bus bandwidth.";
    assert_eq!(finding.sentence, sentence);
    let mut hidden = TraceBuilder::steps(1);
    hidden.kernel("gemm", 100, 9_000);
    reduce(&mut hidden, (1_000, 6_600), 3_300_000);
    is_healthy(&hidden, "exposed-communication");
    is_healthy(&healthy(), "exposed-communication");
}

#[test]
fn collectives_slower_than_a_slow_link() {
    let of = |elements: u32, count: u32| {
        let mut made = TraceBuilder::steps(3);
        for place in 0..count {
            reduce(&mut made, (place * 3_000 + 100, 2_000), elements);
        }
        made
    };
    // 4 MB in 2 ms are 3.5 GB/s on the bus. With 5 GB/s, 30 % of the time would be saved.
    let finding = found(&of(1_000_000, 10), "slow-collectives");
    costs(&finding, 0.020 * 0.3);
    assert!(finding.cost.is_estimated && finding.confidence == Confidence::Likely);
    assert!(
        finding.sentence.starts_with("All-reduces of 3.81 MiB among 8 ranks reach"),
        "{finding:?}"
    );
    // With only two collectives, another rank may have joined late in both.
    assert_eq!(found(&of(500_000, 2), "slow-collectives").confidence, Confidence::Hint);
    // The first trace has fast collectives, and the second has messages too small to be judged.
    is_healthy(&of(100_000_000, 10), "slow-collectives");
    is_healthy(&of(100, 10), "slow-collectives");
    assert!(matches!(outcome(&healthy(), "slow-collectives"), Outcome::NoInputs(_)));
}

#[test]
fn copies_that_nothing_hides() {
    let copied = |name: &str, stream: u32, start: u32, dur: u32| {
        let mut made = TraceBuilder::steps(1);
        made.kernel("gemm", 2_600, 7_000);
        made.work((0, stream), "gpu_memcpy", name, 20, (start, dur));
        made
    };
    let pageable = "Memcpy HtoD (Pageable -> Device)";
    let made = copied(pageable, 7, 100, 2_400);
    let finding = found(&made, "exposed-copies");
    costs(&finding, 0.0024);
    assert_eq!(finding.place.kernel.as_deref(), Some(pageable));
    costs(&found(&made, "pageable-copies"), 0.0024);
    // This copy overlaps a kernel.
    let hidden = copied(pageable, 8, 3_000, 2_400);
    is_healthy(&hidden, "exposed-copies");
    costs(&found(&hidden, "pageable-copies"), 0.0024);
    let pinned = copied("Memcpy HtoD (Pinned -> Device)", 8, 3_000, 2_400);
    is_healthy(&pinned, "pageable-copies");
    is_healthy(&copied(pageable, 7, 100, 300), "exposed-copies");
    is_healthy(&copied(pageable, 7, 100, 300), "pageable-copies");
}

#[test]
fn one_of_several_devices_that_computes_longer() {
    let of = |durations: [u32; 4]| {
        let mut made = TraceBuilder::steps(1);
        for (device, dur) in (0..).zip(durations) {
            made.work((device, 7), "kernel", "gemm", 10 + device * 10, (100, dur));
        }
        made
    };
    let finding = found(&of([6_000, 6_100, 8_000, 6_050]), "slow-device");
    costs(&finding, 0.001_95);
    assert!(finding.sentence.starts_with("Device 2 computes 32.23 % longer"), "{finding:?}");
    is_healthy(&of([6_000, 6_100, 6_200, 6_050]), "slow-device");
    assert!(matches!(outcome(&healthy(), "slow-device"), Outcome::NoInputs(_)));
}

#[test]
fn time_of_which_nothing_is_known() {
    let mut made = TraceBuilder::steps(1);
    made.host("cpu_op", "aten::mm", 0, 1_000);
    let finding = found(&made, "unrecorded-time");
    costs(&finding, 0.009);
    assert_eq!((finding.confidence, finding.is_advice()), (Confidence::Hint, false));
    assert!(made.analysis().text(3).contains("\nHint: Nothing is recorded in 90.00 %"));
    is_healthy(&healthy(), "unrecorded-time");
}

/// Checks that the page shows findings at the top, as reports do.
#[test]
fn a_page_has_them_on_top() {
    let mut made = TraceBuilder::steps(1);
    made.host("user_annotation", "train_dataloader_next", 0, 4_000);
    made.kernel("gemm", 4_100, 5_800);
    let mut page = Page::default();
    page.add("run.json", &made.analysis());
    let html = page.html(&[], None);
    assert!(
        html.contains("<section id=findings><h2>What to do") && html.contains("rule: data-waiting")
    );
}

#[test]
fn kernels_shorter_than_their_launches() {
    let of = |dur: u32, launches: u32| {
        let mut made = TraceBuilder::steps(1);
        for place in 0..launches {
            let ts = place * 10;
            // A launch takes 5 µs.
            made.work((0, 7), "kernel", &format!("add_{}", place % 9), ts, (ts + 6, dur));
        }
        made
    };
    let finding = found(&of(2, 900), "short-kernels");
    costs(&finding, 0.0045);
    assert!(
        finding
            .sentence
            .starts_with("A kernel takes 2.00 µs on average and its launch call 5.00 µs"),
        "{finding:?}"
    );
    is_healthy(&of(8, 900), "short-kernels");
    is_healthy(&of(2, 90), "short-kernels");
}

#[test]
fn a_kernel_that_takes_most_of_the_critical_path() {
    let of = |dur: u32| {
        let mut made = TraceBuilder::steps(1);
        made.kernel("attention_fwd", 100, dur);
        for part in 0..5 {
            made.kernel(&format!("gemm_{part}"), 5_000 + part * 900, 900);
        }
        made.host("cuda_runtime", "cudaDeviceSynchronize", 50, 9_500);
        made
    };
    let finding = found(&of(4_500), "dominant-kernel");
    costs(&finding, 0.0045);
    assert_eq!(finding.sentence, "One kernel takes 45.00 % of the critical path: attention_fwd.");
    assert_eq!(finding.confidence, Confidence::Hint);
    assert_eq!(finding.place.kernel.as_deref(), Some("attention_fwd"));
    is_healthy(&of(900), "dominant-kernel");
    is_healthy(&healthy(), "dominant-kernel");
}

/// Returns three steps, each with `count` elementwise kernels of `dur` µs and a matrix product of
/// `gemm` µs.
fn elementwise(count: u32, dur: u32, gemm: u32) -> TraceBuilder {
    let mut made = TraceBuilder::steps(3);
    for step in 0..3 {
        let at = step * 10_000 + 100;
        for part in 0..count {
            let name = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor>";
            made.kernel(name, at + part * (dur + 1), dur);
        }
        made.kernel("ampere_bf16_s16816gemm_bf16_128x128", at + count * (dur + 1), gemm);
        made.host("cuda_runtime", "cudaDeviceSynchronize", step * 10_000 + 200, 9_700);
    }
    made
}

#[test]
fn unfused_elementwise_kernels_are_found() {
    let finding = found(&elementwise(100, 40, 4_000), "unfused-elementwise");
    assert_eq!(
        finding.sentence,
        "Elementwise kernels take 50.00 % of the busy time of device 0: 100 per step, with a median duration \
         of 40.0 µs."
    );
    costs(&finding, 3.0 * 100.0 * 40e-6);
    assert!(finding.remedy.contains("torch.compile"), "{finding:?}");
    // Elementwise kernels are a small part of the busy time, few, or long. In the last two traces,
    // the device is mostly idle.
    for made in [
        elementwise(40, 40, 8_000),
        elementwise(15, 99, 2_000),
        elementwise(40, 120, 3_000),
        elementwise(40, 20, 500),
        elementwise(20, 20, 0),
    ] {
        is_healthy(&made, "unfused-elementwise");
    }
    let missing = outcome(&healthy(), "unfused-elementwise");
    assert!(matches!(missing, Outcome::NoInputs(_)), "{missing:?}");
}

#[test]
fn the_verdict_names_the_bound_of_devices_and_of_hosts() {
    let verdict = |made: &TraceBuilder| made.analysis().verdict().expect("a verdict");
    let mut busy = TraceBuilder::steps(3);
    (0..3).for_each(|step| busy.kernel("gemm", step * 10_000 + 100, 9_500));
    assert_eq!(
        verdict(&busy),
        "Device-bound: device 0 computes 95 % of the time, 0 % exposed communication, 0 % exposed \
         copies, 5 % idle."
    );
    let mut late = TraceBuilder::steps(3);
    (0..30).for_each(|number| {
        late.work((0, 7), "kernel", "gemm", number * 1_000 + 500, (number * 1_000 + 510, 100))
    });
    assert!(
        verdict(&late).starts_with("Host-bound: device 0 computes 10 % of the time"),
        "{}",
        verdict(&late)
    );
    let mut host = TraceBuilder::steps(2);
    (0..2).for_each(|step| host.host("cpu_op", "aten::mm", step * 10_000 + 1_000, 8_000));
    assert_eq!(
        verdict(&host),
        "Compute-bound: 80 % of a step in ops, 0 % waiting for data, 20 % other."
    );
    let mut waits = TraceBuilder::steps(2);
    let data = "[_TrainingEpochLoop].train_dataloader_next";
    (0..2).for_each(|step| waits.host("user_annotation", data, step * 10_000, 4_000));
    assert!(
        verdict(&waits).starts_with("Data-bound: 0 % of a step in ops, 40 % waiting for data"),
        "{}",
        verdict(&waits)
    );
    let mut without_steps = TraceBuilder::default();
    without_steps.host("cpu_op", "aten::mm", 0, 1_000);
    assert_eq!(without_steps.analysis().verdict(), None);
}
