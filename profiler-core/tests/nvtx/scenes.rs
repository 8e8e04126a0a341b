//! Scenes, and the calls that the tool receives in them.

use std::path::Path;
use std::process::Command;

use mlprof_core::hook::OpStart;
use mlprof_core::nvtx::{EmitNvtxExt, NotAttached, NvtxProfiler};
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    Action, ActionKind, Interest, IntoProfiler, NeverStarted, Profiler, ProfilerExt, RunContext,
    SimpleProfiler, Stage,
};

/// Tool and driver of the process.
pub enum Environment {
    /// A tool, and a driver that captures.
    Tool,
    /// A tool, and a driver without a context.
    ToolAndNoContext,
    /// A tool without a driver.
    ToolAlone,
    Nothing,
    /// A tool whose library does not exist.
    Missing,
    /// A library that is not a tool.
    Foreign,
    /// A tool that declines all calls.
    Declines,
}

pub struct Scene {
    pub name: &'static str,
    environment: Environment,
    play: fn(),
    pub heard: &'static str,
}

impl Scene {
    pub fn play(&self) {
        (self.play)();
    }

    pub fn prepare(&self, command: &mut Command, tool: &Path, folder: &Path) {
        const INJECTION: &str = "NVTX_INJECTION64_PATH";
        let with_driver = |command: &mut Command| {
            command.env("LD_LIBRARY_PATH", folder);
        };
        match self.environment {
            Environment::Nothing => {}
            Environment::ToolAlone => {
                command.env(INJECTION, tool);
            }
            Environment::Tool => with_driver(command.env(INJECTION, tool)),
            Environment::ToolAndNoContext => {
                with_driver(command.env(INJECTION, tool).env("NO_CONTEXT", "1"));
            }
            Environment::Missing => {
                command.env(INJECTION, "/nowhere/libtool.so");
            }
            Environment::Foreign => {
                command.env(INJECTION, folder.join("libcuda.so.1"));
            }
            Environment::Declines => {
                command.env(INJECTION, tool).env_remove("NVTX_RECORD");
            }
        }
    }
}

/// Replaces addresses, and numbers the threads in order of first occurrence.
pub fn without_addresses(heard: &str) -> String {
    let mut threads = Vec::new();
    let line = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for word in words.iter_mut().filter(|word| word.starts_with("0x")) {
            let known = threads.iter().position(|known| known == word);
            let number = known.unwrap_or_else(|| {
                threads.push(word.clone());
                threads.len() - 1
            });
            *word = format!("t{number}");
        }
        words.join(" ") + "\n"
    };
    heard.lines().map(line).collect()
}

macro_rules! heard {
    ($text:literal) => {
        concat!(
            "domain mlprof\ncategory 1 action\ncategory 2 module\ncategory 3 op\n",
            "category 4 function\ncategory 5 step\n",
            $text
        )
    };
}

pub const ALL: &[Scene] = &[
    Scene {
        name: "ranges",
        environment: Environment::Tool,
        play: ranges,
        heard: heard!(
            "name run_training_batch
push t0 v3/48 category 1 message 3 run_training_batch
name [module]Linear: net.0
push t0 v3/48 category 2 message 3 [module]Linear: net.0
name aten::linear
push t0 v3/48 category 3 message 3 aten::linear
pop t0
push t0 v3/48 category 3 message 3 aten::linear payload 1 7
pop t0
pop t0
name forward
push t0 v3/48 category 4 message 3 forward
pop t0
pop t0
name nul\u{fffd}in é
push t1 v3/48 category 1 message 3 nul\u{fffd}in é
pop t1
push t0 v3/48 category 1 message 3 run_training_batch
pop t0
"
        ),
    },
    Scene {
        name: "ends in any order",
        environment: Environment::Tool,
        play: ends_in_any_order,
        heard: heard!(
            "name outer
push t0 v3/48 category 1 message 3 outer
name inner
push t0 v3/48 category 1 message 3 inner
pop t0
pop t0
"
        ),
    },
    Scene {
        name: "steps of a schedule",
        environment: Environment::Tool,
        play: steps_of_a_schedule,
        heard: heard!(
            "cuProfilerStart
name ProfilerStep
start 1 v3/48 category 5 message 3 ProfilerStep payload 1 1
name run_training_batch
push t0 v3/48 category 1 message 3 run_training_batch
pop t0
end 1
start 2 v3/48 category 5 message 3 ProfilerStep payload 1 1
end 2
start 3 v3/48 category 5 message 3 ProfilerStep payload 1 2
push t0 v3/48 category 1 message 3 run_training_batch
pop t0
end 3
start 4 v3/48 category 5 message 3 ProfilerStep payload 1 2
end 4
cuProfilerStop
"
        ),
    },
    Scene {
        name: "stages",
        environment: Environment::Tool,
        play: stages,
        heard: heard!(
            "cuProfilerStart
name ProfilerStep
start 1 v3/48 category 5 message 3 ProfilerStep payload 1 0
end 1
start 2 v3/48 category 5 message 3 ProfilerStep payload 1 1
end 2
start 3 v3/48 category 5 message 3 ProfilerStep payload 1 0
name validation_step
push t0 v3/48 category 1 message 3 validation_step
pop t0
end 3
start 4 v3/48 category 5 message 3 ProfilerStep payload 1 1
end 4
cuProfilerStop
"
        ),
    },
    Scene {
        name: "beside another profiler",
        environment: Environment::Tool,
        play: beside_another_profiler,
        heard: heard!(
            "name load_data
push t0 v3/48 category 1 message 3 load_data
pop t0
"
        ),
    },
    Scene {
        name: "no context",
        environment: Environment::ToolAndNoContext,
        play: || capture_fails("cuProfilerStart: there is no CUDA context yet"),
        heard: heard!(
            "cuProfilerStart
name ProfilerStep
start 1 v3/48 category 5 message 3 ProfilerStep payload 1 0
end 1
cuProfilerStop
"
        ),
    },
    Scene {
        name: "no driver",
        environment: Environment::ToolAlone,
        play: || capture_fails("cannot query the CUDA driver: libcuda.so.1"),
        heard: heard!(
            "name ProfilerStep
start 1 v3/48 category 5 message 3 ProfilerStep payload 1 0
end 1
"
        ),
    },
    Scene {
        name: "no tool",
        environment: Environment::Nothing,
        play: || no_listener("NVTX_INJECTION64_PATH is not set"),
        heard: "",
    },
    Scene {
        name: "no library",
        environment: Environment::Missing,
        play: || no_listener("/nowhere/libtool.so"),
        heard: "",
    },
    Scene {
        name: "another library",
        environment: Environment::Foreign,
        play: || no_listener("InitializeInjectionNvtx2"),
        heard: "",
    },
    Scene {
        name: "a tool that declines",
        environment: Environment::Declines,
        play: || no_listener("declined"),
        heard: "",
    },
];

fn ranges() {
    let profiler = NvtxProfiler::new();
    assert_eq!((profiler.not_attached(), profiler.summary()), (None, String::new()));
    assert!(profiler.interest().contains(Interest::OPS) && profiler.is_enabled());
    let linear = Action::op("aten::linear");
    let mut backward = OpStart::new(linear);
    backward.sequence = 7;
    let function = Action::of_kind(ActionKind::Function, "forward", None);
    {
        let _batch = profiler.profile("run_training_batch");
        let module = Action::module("Linear", "net.0");
        profiler.start(module);
        for op in [OpStart::new(linear), backward] {
            profiler.start_op(&op);
            profiler.stop(linear).expect("started");
        }
        profiler.stop(module).expect("started");
        profiler.start(function);
        profiler.stop(function).expect("started");
    }
    std::thread::scope(|threads| {
        threads.spawn(|| drop(profiler.profile(String::from("nul\0in é"))));
    });
    drop(profiler.profile("run_training_batch"));
}

fn ends_in_any_order() {
    let profiler = NvtxProfiler::new();
    let [outer, inner] = ["outer", "inner"].map(Action::new);
    profiler.start(outer);
    profiler.start(inner);
    // The tool supports only nested ranges. For it, the outer range ends when the inner one has
    // ended.
    profiler.stop(outer).expect("started");
    assert_eq!(profiler.stop(outer), Err(NeverStarted(outer)));
    profiler.stop(inner).expect("started");
    assert_eq!(profiler.stop(inner), Err(NeverStarted(inner)));
}

fn steps_of_a_schedule() {
    let schedule = Schedule::new().wait(1).warmup(0).active(2).repeat(1);
    let profiler = NvtxProfiler::new().capture(true).schedule(schedule);
    let refused = NvtxProfiler::new().schedule(schedule.active(0)).into_profiler().err();
    assert!(matches!(refused, Some(mlprof_core::Error::Schedule(_))), "{refused:?}");
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..5 {
        drop(profiler.profile("run_training_batch"));
        // Steps of the nested validation are not counted.
        profiler.pause();
        drop(profiler.profile("validation_step"));
        profiler.step();
        profiler.resume();
        profiler.step();
    }
    profiler.teardown(Some(Stage::Fit));
    assert_eq!(profiler.summary(), "");
}

fn stages() {
    let profiler = NvtxProfiler::new().capture(true);
    let run = RunContext::default();
    profiler.setup(Stage::Fit, &run);
    profiler.step();
    profiler.pause();
    profiler.setup(Stage::Validate, &run);
    drop(profiler.profile("validation_step"));
    profiler.teardown(Some(Stage::Validate));
    profiler.resume();
    profiler.teardown(None);
    profiler.teardown(Some(Stage::Fit));
}

fn beside_another_profiler() {
    let simple = SimpleProfiler::new().emit_nvtx().into_profiler().expect("a profiler");
    drop(simple.profile("load_data"));
    assert!(simple.summary().contains("load_data"), "{}", simple.summary());
    assert!("NVTX".into_profiler().expect("a name").is_enabled());
}

fn capture_fails(why: &str) {
    let profiler = NvtxProfiler::new().capture(true);
    profiler.setup(Stage::Test, &RunContext::default());
    profiler.teardown(None);
    assert!(profiler.summary().contains(why), "{}", profiler.summary());
}

fn no_listener(why: &str) {
    let profiler = NvtxProfiler::new();
    assert!(!profiler.is_enabled() && profiler.interest() == Interest::NONE);
    drop(profiler.profile("load_data"));
    profiler.stop(Action::new("anything")).expect("nobody cares");
    profiler.step();
    assert!(profiler.summary().contains(why), "{}", profiler.summary());
    assert!(
        !matches!(profiler.not_attached(), None | Some(NotAttached::Declined)) ^ why.eq("declined")
    );
}
