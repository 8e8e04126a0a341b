//! Checks that every profiler with a report writes it as an HTML page.

use mlprof_core::allocation::AllocationProfiler;
use mlprof_core::{
    AdvancedProfiler, Profiler, ProfilerExt, RunContext, SimpleProfiler, Stage, TensorProfiler,
};

#[test]
fn every_profiler_writes_its_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let profilers: [(&str, Box<dyn Profiler>); 5] = [
        ("Simple", Box::new(SimpleProfiler::new().dirpath(path).filename("simple").html(true))),
        (
            "Advanced",
            Box::new(AdvancedProfiler::new().dirpath(path).filename("advanced").html(true)),
        ),
        ("Tensor", Box::new(TensorProfiler::new().dirpath(path).filename("tensor").html(true))),
        ("Memory", Box::new(AllocationProfiler::new().dirpath(path).filename("memory").html(true))),
        (
            "Simple",
            Box::new(SimpleProfiler::new().dirpath(path).filename("cpu").html(true).measure_cpu()),
        ),
    ];
    for (kind, profiler) in profilers {
        profiler.setup(Stage::Fit, &RunContext::from_environment());
        drop((*profiler).profile("load </script>"));
        profiler.step();
        let word = profiler.output().and_then(|output| output.own_path("html"));
        profiler.describe();
        let file = word.expect("a path");
        let html = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(html.contains(&format!("<h2>{kind} · fit")), "{kind}");
        assert_eq!(html.matches("</script>").count(), 2, "{kind}: those of the page");
    }
}
