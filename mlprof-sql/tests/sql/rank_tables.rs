//! Synthetic traces of ranks, built from events and written as tables. Times are in microseconds.

use std::path::Path;

use mlprof_analysis::{Trace, columns, kineto};

/// Deterministic pseudorandom numbers.
pub struct Chance(u64);

impl Chance {
    pub fn of(seed: u32) -> Self {
        Self(u64::from(seed) * 7_919 + 1)
    }

    /// Returns a number from 0 up to but excluding `below`.
    pub fn below(&mut self, below: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(below)) as u32
    }
}

/// Properties of a rank.
#[derive(Clone, Copy)]
pub struct Rank {
    pub number: u32,
    pub world_size: u32,
    pub cycle: u32,
    pub steps: u32,
    /// Additional time in each step for which the rank waits for data.
    pub late: u32,
}

struct Events(Vec<String>);

impl Events {
    fn slice(
        &mut self,
        (pid, tid): (u32, u32),
        category: &str,
        name: &str,
        (ts, dur): (u32, u32),
        args: &str,
    ) {
        self.0.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts}.125,"dur":{dur},"args":{{{args}}}}}"#
        ));
    }
}

/// Returns the trace of a rank. Each step consists of data, the forward of a module with ops and
/// kernels, backward, a collective, and the optimizer. In the collective, the rank waits for the
/// latest rank, which is late by `latest`. A copy and a collective run concurrently with kernels,
/// and there is a memory counter.
pub fn json(rank: Rank, latest: u32) -> String {
    let mut events = Events(vec![
        r#"{"ph":"M","name":"process_name","pid":100,"tid":0,"ts":0,"args":{"name":"digits"}}"#
            .to_owned(),
        r#"{"ph":"M","name":"process_labels","pid":0,"tid":0,"ts":0,"args":{"labels":"GPU 0"}}"#
            .to_owned(),
    ]);
    let mut chance = Chance::of(rank.number * 100 + rank.cycle);
    let mut correlation = 0;
    let main = (100, 100);
    for step in 0..rank.steps {
        let at = step * 100_000;
        let number = rank.cycle * 1_000 + step;
        // The last step but one takes longer on all ranks.
        let outlier = if step + 2 == rank.steps { 20_000 } else { 0 };
        let data = 1_000 + rank.late + chance.below(50);
        let forward = 8_000 + chance.below(100);
        let backward = 14_000 + chance.below(100) + outlier;
        let waiting = latest - rank.late + 2_000 + chance.below(20);
        let optimizer = 3_000 + chance.below(50);
        let all = data + forward + backward + waiting + optimizer + 300;
        events.slice(main, "user_annotation", &format!("ProfilerStep#{number}"), (at, all), "");
        let mut now = at;
        let mut next = |dur: u32| {
            now += dur;
            (now - dur, dur)
        };
        let place = next(data);
        events.slice(
            main,
            "user_annotation",
            "[_TrainingEpochLoop].train_dataloader_next",
            place,
            "",
        );
        let batch = (now_of(place), all - data - 100);
        events.slice(main, "user_annotation", "run_training_batch", batch, "");
        for (action, length) in [("training_step", forward), ("backward", backward)] {
            let place = next(length);
            events.slice(main, "user_annotation", &format!("[Strategy]Single.{action}"), place, "");
            let module = (place.0 + 100, place.1 - 200);
            events.slice(main, "user_annotation", "[module]Linear: hidden", module, "");
            for op in 0..6 {
                let start = module.0 + 10 + op * (module.1 / 7);
                let name = ["aten::mm", "aten::add", "aten::relu"][op as usize % 3];
                let took = 300 + chance.below(200);
                events.slice(main, "cpu_op", name, (start, took), r#""Input Dims":[[2,3],[]]"#);
                correlation += 1;
                let args = format!(r#""correlation":{correlation}"#);
                events.slice(main, "cuda_runtime", "cudaLaunchKernel", (start + 20, 30), &args);
                let begins = start + 60 + chance.below(500);
                let kernel = (begins, 400 + chance.below(700) + rank.number % 3 * 50);
                let kind = ["sgemm_128x64", "elementwise", "relu_kernel"][op as usize % 3];
                events.slice((0, 7 + op % 2), "kernel", kind, kernel, &args);
            }
            let args = format!(r#""bytes":{}"#, 4096 * (1 + chance.below(9)));
            let copy = (place.0 + 700 + chance.below(900), 250);
            events.slice((0, 9), "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", copy, &args);
        }
        let place = next(waiting);
        let args = format!(r#""Collective name":"all_reduce_gradients","Seq":{number}"#);
        events.slice(main, "user_annotation", "all_reduce_gradients", place, &args);
        let nccl = (place.0 - 4_200, waiting / 2 + 4_300);
        events.slice((0, 11), "kernel", "ncclDevKernel_AllReduce_Sum_f32", nccl, "");
        events.slice(
            main,
            "user_annotation",
            "[LightningModule]Net.optimizer_step",
            next(optimizer),
            "",
        );
        let used = f64::from(chance.below(1_000)) + 0.25;
        events.0.push(format!(
            r#"{{"ph":"C","name":"memory","pid":100,"ts":{},"args":{{"value":{used}}}}}"#,
            at + 5
        ));
    }
    let Rank { number, world_size, cycle, .. } = rank;
    format!(
        "{{\"distributedInfo\":{{\"rank\": {number}, \"world_size\": {world_size}}},\"hostname\":\"host-{}\",\n\
         \"cycle\":{cycle},\"baseTimeNanoseconds\":1700000000000000000,\n\"traceEvents\":[\n{}\n],\"traceName\":\"x\"}}",
        number / 2,
        events.0.join(",\n")
    )
}

fn now_of((ts, dur): (u32, u32)) -> u32 {
    ts + dur
}

/// Returns the trace of a rank, parsed by mlprof.
pub fn trace(rank: Rank, latest: u32) -> Trace {
    let mut trace = kineto::read(json(rank, latest).as_bytes()).expect("a trace");
    trace.info.cycle = rank.cycle.into();
    trace.info.stage = Some("fit".to_owned());
    trace
}

/// Writes the tables of `count` ranks with two cycles each to the folder and returns their traces.
/// The rank `slow` waits `late` longer for its data.
pub fn ranks(folder: &Path, count: u32, steps: u32, (slow, late): (u32, u32)) -> Vec<Trace> {
    let all = (0..count).flat_map(|number| [0, 1].map(|cycle| (number, cycle)));
    let traces = all.map(|(number, cycle)| {
        let late_by = if number == slow { late } else { 0 };
        let rank = Rank { number, world_size: count, cycle, steps, late: late_by };
        trace(rank, late)
    });
    let traces: Vec<Trace> = traces.collect();
    for trace in &traces {
        columns::write(trace, folder).expect("tables");
    }
    traces
}
