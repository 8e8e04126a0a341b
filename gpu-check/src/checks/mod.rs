//! The checks of this program.

#[cfg(feature = "burn")]
mod burn;
#[cfg(feature = "candle")]
mod candle;
mod copies;
mod environment;
mod launches;
mod many;
mod overhead;
mod recordings;
mod regions;
#[cfg(feature = "burn")]
mod trace;

use crate::gpu::Gpu;
use crate::options::Options;
use crate::outcome::Row;

/// A check of this program. Its function returns rows of the table, or the reason why it was
/// aborted.
pub struct Check {
    /// Name of the check on the command line.
    pub name: &'static str,
    /// One-line description of the check.
    pub about: &'static str,
    pub run: fn(&Options, &mut Shared) -> Result<Vec<Row>, String>,
}

/// Resources shared by several checks, created on first use.
#[derive(Default)]
pub struct Shared {
    gpu: Option<Gpu>,
    #[cfg(feature = "burn")]
    steps: Option<burn::Steps>,
}

impl Shared {
    fn gpu(&mut self) -> Result<&Gpu, String> {
        let gpu = match self.gpu.take() {
            Some(gpu) => gpu,
            None => Gpu::open()?,
        };
        Ok(self.gpu.insert(gpu))
    }
}

/// All checks in execution order. The check that must run before any recording is the first. Checks
/// without a framework follow, because burn's hooks stay installed for the rest of the process.
/// Among burn's checks, the one that runs without hooks is the first.
pub const CHECKS: [Check; 12] = [
    Check {
        name: "recordings",
        about: "several recordings, and the cost of a launch between them",
        run: recordings::run,
    },
    Check {
        name: "environment",
        about: "mlprof finds driver, device and CUPTI, and collects a kernel",
        run: environment::run,
    },
    Check {
        name: "regions",
        about: "profile_device compared with the kernels inside, on a stream of cudarc",
        run: regions::run,
    },
    Check {
        name: "launches",
        about: "kernels of four threads and of a replayed graph belong to their actions",
        run: launches::run,
    },
    Check {
        name: "copies",
        about: "times of copies and fills compared with CUDA events",
        run: copies::run,
    },
    Check {
        name: "overhead",
        about: "cost of collecting a kernel, compared with torch.profiler",
        run: overhead::run,
    },
    Check {
        name: "many",
        about: "ten million kernels in bounded memory, all counted",
        run: many::run,
    },
    Check {
        name: "step",
        about: "device time of burn's training steps compared with CUDA events",
        run: of_burn::STEP,
    },
    Check {
        name: "counted",
        about: "CUPTI reports as many kernels as burn launched, and ops have times",
        run: of_burn::COUNTED,
    },
    Check {
        name: "times",
        about: "CUPTI's times of burn's kernels compared with burn's own",
        run: of_burn::TIMES,
    },
    Check {
        name: "trace",
        about: "HolisticTraceAnalysis reads the trace of burn's steps; --save-fixtures keeps it",
        run: of_burn::TRACE,
    },
    Check { name: "candle", about: "kernels of candle's ops belong to their action", run: CANDLE },
];

type Run = fn(&Options, &mut Shared) -> Result<Vec<Row>, String>;

#[cfg(feature = "burn")]
mod of_burn {
    use super::{Run, burn, trace};

    pub const STEP: Run = burn::step;
    pub const COUNTED: Run = burn::counted;
    pub const TIMES: Run = burn::times;
    pub const TRACE: Run = trace::run;
}

#[cfg(not(feature = "burn"))]
mod of_burn {
    use super::{Row, Run};

    const WHY: &str = "built without burn";

    pub const STEP: Run = |_, _| Ok(vec![Row::not_run("burn: step and CUDA events", WHY)]);
    pub const COUNTED: Run = |_, _| Ok(vec![Row::not_run("burn: kernels counted", WHY)]);
    pub const TIMES: Run = |_, _| Ok(vec![Row::not_run("burn: kernel times", WHY)]);
    pub const TRACE: Run = |_, _| Ok(vec![Row::not_run("trace", WHY)]);
}

#[cfg(feature = "candle")]
const CANDLE: Run = candle::run;
#[cfg(not(feature = "candle"))]
const CANDLE: Run = |_, _| {
    Ok(vec![Row::not_run("candle", "built without candle (--candle builds it; needs nvcc)")])
};
