//! Results as values, as a table and as JSON.

use serde::Serialize;

use crate::budget::Budget;

/// The row to which all other rows are compared.
pub const FLOOR: &str = "floor";

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the subject.
    pub name: &'static str,
    /// Number of threads.
    pub threads: usize,
    /// Median cost of a scope in nanoseconds.
    pub median_ns: f64,
    /// Median cost relative to the floor on the same number of threads.
    pub floor_ratio: f64,
    /// `true` if the result is within its budget; `None` without a budget.
    #[serde(skip)]
    pub is_within_budget: Option<bool>,
}

/// Returns the results for one number of threads, from one median per name.
pub fn figures(names: &[&'static str], medians: &[f64], threads: usize) -> Vec<Figure> {
    let rounded = |value: f64| (value * 1_000.0).round() / 1_000.0;
    let median_of = |wanted: &str| {
        let found = names.iter().zip(medians).find(|(name, _)| **name == wanted);
        found.map_or(f64::NAN, |(_, median)| rounded(*median))
    };
    let floor = median_of(FLOOR);
    names
        .iter()
        .zip(medians)
        .map(|(&name, &median)| {
            let (median_ns, floor_ratio) = (rounded(median), rounded(median / floor));
            let is_within_budget =
                Budget::of(name).map(|budget| budget.holds(median_ns, floor_ratio, median_of));
            Figure { name, threads, median_ns, floor_ratio, is_within_budget }
        })
        .collect()
}

/// Returns an aligned table with one row per name. For each number of threads, it shows the time
/// and the multiple of the floor.
pub fn table(figures: &[Figure]) -> String {
    let mut threads: Vec<usize> = figures.iter().map(|figure| figure.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut names: Vec<&str> = Vec::new();
    for figure in figures {
        if !names.contains(&figure.name) {
            names.push(figure.name);
        }
    }
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);

    let mut text = format!("{:width$}", "");
    for count in &threads {
        let title = format!("{count} thread{}", if *count == 1 { "" } else { "s" });
        text += &format!("  {title:>20}");
    }
    text += &format!("   {:<8}", "budget");
    text = text.trim_end().to_owned() + "\n";
    for name in names {
        text += &line(name, width, &threads, figures);
        text.push('\n');
    }
    text
}

fn line(name: &str, width: usize, threads: &[usize], figures: &[Figure]) -> String {
    let mut text = format!("{name:width$}");
    let mut within = None;
    for count in threads {
        let figure = figures.iter().find(|other| other.name == name && other.threads == *count);
        match figure {
            Some(figure) => {
                text += &format!("  {:>8.2} ns {:>6.2} ×", figure.median_ns, figure.floor_ratio);
                if let Some(holds) = figure.is_within_budget {
                    within = Some(within.unwrap_or(true) && holds);
                }
            }
            None => text += &format!("  {:>20}", "-"),
        }
    }
    if let (Some(budget), Some(within)) = (Budget::of(name), within) {
        text += &format!("   {budget:<8} {}", if within { "holds" } else { "EXCEEDED" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Figure> {
        let names = ["floor", "off", "simple", "puffin"];
        let mut all = figures(&names, &[20.0, 0.5, 25.0, 80.0], 1);
        all.extend(figures(&names, &[10.0, 0.5, 14.0, 40.0], 8));
        all
    }

    #[test]
    fn ratios_are_to_the_floor_on_as_many_threads() {
        let figures = sample();
        assert_eq!(figures[2].floor_ratio, 1.25);
        assert_eq!(figures[6].floor_ratio, 1.4);
        assert_eq!(figures[2].is_within_budget, Some(true));
        assert_eq!(figures[6].is_within_budget, Some(false));
        assert_eq!(figures[3].is_within_budget, None);
    }

    #[test]
    fn json_has_four_fields() {
        let json = serde_json::to_value(sample()).expect("plain numbers");
        assert_eq!(
            json[2],
            serde_json::json!({"name": "simple", "threads": 1, "median_ns": 25.0, "floor_ratio": 1.25})
        );
    }

    #[test]
    fn the_table_is_aligned_and_judges_every_thread_count() {
        let expected = "                    1 thread             8 threads   budget\n\
                        floor      20.00 ns   1.00 ×     10.00 ns   1.00 ×\n\
                        off         0.50 ns   0.03 ×      0.50 ns   0.05 ×   ≤ 2 ns   holds\n\
                        simple     25.00 ns   1.25 ×     14.00 ns   1.40 ×   ≤ 1.3 ×  EXCEEDED\n\
                        puffin     80.00 ns   4.00 ×     40.00 ns   4.00 ×\n";
        assert_eq!(table(&sample()), expected);
    }
}
