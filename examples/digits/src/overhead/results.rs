//! Results of a measurement, as text and as JSON.

use std::fmt;
use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Clock, Estimate};

/// Maximum relative cost of Simple per step.
const BUDGET: f64 = 0.001;

/// Cost of profiling per step of one training loop. Costs are relative to a step without a
/// profiler: 0.001 is 0.1 %.
#[derive(Debug, Clone)]
pub struct Results {
    /// Name of the framework.
    pub framework: String,
    /// Clock that timed the steps.
    pub clock: Clock,
    /// Number of epochs of each kind.
    pub rounds: u32,
    /// Number of timed steps without a profiler.
    pub steps: usize,
    /// Median step length in µs.
    pub step_us: f64,
    /// Quartiles of the step length in µs.
    pub step_quartiles_us: (f64, f64),
    /// Number of scopes that begin within a step.
    pub scopes_per_step: f64,
    /// Cost of a Simple scope in a tight loop, in nanoseconds.
    pub ns_per_scope: f64,
    /// Cost with every other step recorded by a profiler that does nothing.
    pub control: Estimate,
    /// Cost with every other step recorded by Simple.
    pub neighbours: Estimate,
    /// Cost for whole epochs of each kind.
    pub epochs: Vec<(String, Estimate)>,
    /// Load average of the last minute before and after the measurement; Linux only.
    pub load_average: Option<(f64, f64)>,
}

impl Results {
    /// Returns the relative cost by Simple's own account.
    pub fn account(&self) -> f64 {
        self.scopes_per_step * self.ns_per_scope / (self.step_us * 1e3)
    }

    /// Writes the results as one flat JSON object.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn write_json(&self, file: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(&self.to_json())?;
        std::fs::write(file, text + "\n")
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("framework", json!(self.framework));
        put("clock", json!(self.clock.to_string()));
        put("rounds", json!(self.rounds));
        put("steps", json!(self.steps));
        put("step_us", json!(self.step_us));
        put("step_us_quartile_1", json!(self.step_quartiles_us.0));
        put("step_us_quartile_3", json!(self.step_quartiles_us.1));
        put("scopes_per_step", json!(self.scopes_per_step));
        put("ns_per_scope", json!(self.ns_per_scope));
        put("account_share", json!(self.account()));
        let epochs = self.epochs.iter().map(|(name, estimate)| {
            (format!("epochs_{}", name.replace([' ', ','], "_")), estimate)
        });
        let neighbours = [("control", &self.control), ("neighbours", &self.neighbours)];
        let neighbours = neighbours.map(|(name, estimate)| (name.to_owned(), estimate));
        for (name, estimate) in neighbours.into_iter().chain(epochs) {
            put(&format!("{name}_share"), json!(estimate.median));
            put(&format!("{name}_low"), json!(estimate.interval.map(|(low, _)| low)));
            put(&format!("{name}_high"), json!(estimate.interval.map(|(_, high)| high)));
        }
        put("load_average_before", json!(self.load_average.map(|(before, _)| before)));
        put("load_average_after", json!(self.load_average.map(|(_, after)| after)));
        Value::Object(object)
    }
}

impl fmt::Display for Results {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { framework, clock, rounds, steps, step_us, .. } = self;
        let (low, high) = self.step_quartiles_us;
        writeln!(
            formatter,
            "{framework}: {steps} steps in {rounds} rounds, {clock} time, median {step_us:.1} µs, \
             half of them between {low:.1} and {high:.1} µs"
        )?;
        let Self { scopes_per_step, ns_per_scope, .. } = self;
        let account = self.account() * 100.0;
        let per_step = scopes_per_step * ns_per_scope / 1e3;
        writeln!(
            formatter,
            "{:<40} {account:>+8.3} %   {scopes_per_step:.1} scopes per step × {ns_per_scope:.1} ns \
             = {per_step:.2} µs",
            "simple, computed from its scopes"
        )?;
        row(formatter, "every other step with simple", &self.neighbours)?;
        row(formatter, "every other step with nothing (control)", &self.control)?;
        for (name, estimate) in &self.epochs {
            row(formatter, &format!("whole epochs, {name}"), estimate)?;
        }
        if let Some((before, after)) = self.load_average {
            writeln!(formatter, "load average {before} before, {after} after")?;
        }
        Ok(())
    }
}

fn row(formatter: &mut fmt::Formatter<'_>, name: &str, estimate: &Estimate) -> fmt::Result {
    write!(formatter, "{name:<40} {:>+8.3} %   ", estimate.median * 100.0)?;
    match estimate.interval {
        Some((low, high)) => {
            let (from, to) = (low * 100.0, high * 100.0);
            write!(formatter, "95 %: {from:+.3} to {to:+.3} %")?;
            if high - low > BUDGET {
                write!(formatter, "; noise, wider than the budget of {} %", BUDGET * 100.0)?;
            }
        }
        None => write!(formatter, "no interval: fewer than 6 rounds")?,
    }
    writeln!(formatter)
}

/// Returns the load average of the last minute.
pub(super) fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let estimate = |median: f64, width: f64| {
            let interval = Some((median - width / 2.0, median + width / 2.0));
            Estimate { median, interval }
        };
        Results {
            framework: "toy".to_owned(),
            clock: Clock::Wall,
            rounds: 6,
            steps: 210,
            step_us: 1000.0,
            step_quartiles_us: (900.0, 1200.0),
            scopes_per_step: 25.0,
            ns_per_scope: 20.0,
            control: Estimate { median: 0.0, interval: None },
            neighbours: estimate(0.0006, 0.0004),
            epochs: vec![("hooks only".to_owned(), estimate(0.01, 0.05))],
            load_average: Some((0.5, 1.5)),
        }
    }

    #[test]
    fn the_account_is_a_share_of_the_step() {
        assert!((results().account() - 0.0005).abs() < 1e-12);
    }

    #[test]
    fn noise_is_called_noise() {
        let text = results().to_string();
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
        };
        let quiet = line("every other step with simple");
        assert!(quiet.contains("+0.060 %   95 %: +0.040 to +0.080 %"), "{quiet}");
        assert!(!quiet.contains("noise"), "{quiet}");
        assert!(line("whole epochs, hooks only").contains("noise, wider than the budget of 0.1 %"));
        assert!(line("every other step with nothing").contains("no interval"));
    }

    #[test]
    fn json_is_flat_and_knows_what_is_missing() {
        let json = results().to_json();
        let object = json.as_object().expect("an object");
        assert!(object.values().all(|value| !value.is_object() && !value.is_array()));
        assert_eq!(object["epochs_hooks_only_share"], json!(0.01));
        assert_eq!(object["control_low"], Value::Null);
        assert_eq!(object["account_share"], json!(0.0005));
    }
}
