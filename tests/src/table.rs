//! Parses the printed table of a Simple report.

/// One row of the table. Numbers are as printed, with five significant digits.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The first column.
    pub action: String,
    /// `Mean duration (s)`; `None` in the totals row.
    pub mean: Option<f64>,
    /// `Num calls`.
    pub calls: u64,
    /// `Total time (s)`.
    pub total: f64,
    /// `Percentage %`; `None` in the start-up rows.
    pub percentage: Option<f64>,
}

/// A whole report.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The row `Total`: all calls, and the wall time.
    pub total: Row,
    /// All other rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// Finds `{stage} Profiler Report` in a program's output and parses the table below it. Panics
    /// if the table does not have the same format as Lightning's.
    pub fn find(stage: &str, text: &str) -> Self {
        let title = format!("{stage} Profiler Report\n\n");
        let start = text.find(&title).unwrap_or_else(|| panic!("no {title:?} in:\n{text}"));
        let mut lines = text[start + title.len()..].lines();
        let rule = lines.next().unwrap_or_default();
        assert!(!rule.is_empty() && rule.bytes().all(|byte| byte == b'-'), "{rule:?}");
        let header = cells(lines.next().unwrap_or_default());
        let titles = ["Action", "Mean duration (s)", "Num calls", "Total time (s)", "Percentage %"];
        assert_eq!(header, titles);
        let mut sections = Vec::new();
        let mut section = Vec::new();
        while sections.len() < 3 {
            match lines.next() {
                Some(line) if line == rule => sections.push(std::mem::take(&mut section)),
                Some(line) => section.push(row(line)),
                None => panic!("the table has no end:\n{text}"),
            }
        }
        // The sections between the rules are: nothing below the header, the totals, and the rows.
        let [none, totals, rows] = <[_; 3]>::try_from(sections).expect("four rules");
        assert!(none.is_empty());
        let [total] = <[_; 1]>::try_from(totals).expect("one line of totals");
        assert_eq!(total.action, "Total");
        Self { total, rows }
    }

    /// Returns the row of an action.
    pub fn row(&self, action: &str) -> &Row {
        let found = self.rows.iter().find(|row| row.action == action);
        found.unwrap_or_else(|| panic!("no row {action:?} in {:#?}", self.rows))
    }

    /// Returns the only row whose name ends with `ending`.
    pub fn row_ending(&self, ending: &str) -> &Row {
        let found: Vec<_> = self.rows.iter().filter(|row| row.action.ends_with(ending)).collect();
        let [row] = found.as_slice() else { panic!("{ending:?} matches {found:#?}") };
        row
    }
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|'));
    let inner = inner.unwrap_or_else(|| panic!("not a line of a table: {line:?}"));
    inner.split("\t|").map(str::trim).collect()
}

fn row(line: &str) -> Row {
    let cells = cells(line);
    let [action, mean, calls, total, percentage] = cells.as_slice() else {
        panic!("five columns, not {cells:?}")
    };
    let number = |text: &str| {
        text.parse::<f64>().unwrap_or_else(|_| panic!("not a number: {text:?} in {line:?}"))
    };
    Row {
        action: (*action).to_owned(),
        mean: (*mean != "-").then(|| number(mean)),
        calls: calls.parse().unwrap_or_else(|_| panic!("not a count: {calls:?}")),
        total: number(total),
        percentage: (*percentage != "-").then(|| number(percentage.trim_end_matches('%').trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "epoch 1\nFIT Profiler Report\n\n-----\n\
        |  Action\t|  Mean duration (s)\t|  Num calls\t|  Total time (s)\t|  Percentage %\t|\n-----\n\
        |  Total\t|  -\t|  9\t|  7.0\t|  100 %\t|\n-----\n\
        |  run | batch\t|  0.0022506\t|  7\t|  0.015754\t|  0.22506\t|\n-----\n\ntest accuracy: 97.0 %\n";

    #[test]
    fn a_report_is_found_and_read() {
        let table = Table::find("FIT", REPORT);
        assert_eq!((table.total.calls, table.total.total, table.total.mean), (9, 7.0, None));
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.row("run | batch").calls, 7);
        assert_eq!(table.row_ending("batch").mean, Some(0.0022506));
    }

    #[test]
    #[should_panic(expected = "no \"TEST Profiler Report")]
    fn another_stage_has_another_report() {
        Table::find("TEST", REPORT);
    }
}
