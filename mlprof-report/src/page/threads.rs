//! What each thread did, and what it waited for.

use super::Part;
use super::nesting::nested;
use super::table::{Cell, Column, Merge, Table, Unit};
use super::text;
use crate::simple::{ActionStatistics, ThreadStatistics};
use crate::tensor::RecordedThread;

/// A row per thread, or per name that several have.
pub(super) fn write(html: &mut String, threads: &[ThreadStatistics], wall: f64, part: &Part) {
    let mut table = Table::new([
        Column::new("Thread", Unit::Text, "Its name, and how many have it").merge(Merge::Key),
        Column::new("In actions", Unit::Seconds, "Self times of its actions together").bar(),
        Column::new("Share", Unit::Share, "Of the wall time, by the number of threads"),
        Column::new("CPU", Unit::Seconds, "CPU time in its outermost actions").bar(),
        Column::new(
            "Waiting",
            Unit::Seconds,
            "The rest of these: for others, files, locks, a core",
        )
        .bar(),
        Column::new("Calls", Unit::Count, "Of all its actions"),
        Column::new("Most in", Unit::Text, "The action that took the most itself"),
        Column::new("Of that", Unit::Seconds, "How long that was"),
        Column::new("Waited most in", Unit::Text, "The innermost action that waited the most"),
    ])
    .sorted_by(1);
    let mut threads: Vec<_> = threads.iter().map(|thread| (own_seconds(thread), thread)).collect();
    threads.sort_by(|one, other| other.0.total_cmp(&one.0));
    for (own, thread) in threads.into_iter().take(part.limits.rows) {
        let rows: Vec<_> = thread.actions.iter().collect();
        let nested = nested(&rows);
        let outermost = || nested.iter().filter(|(depth, _)| *depth == 0).map(|(_, row)| *row);
        let sum = |pick: fn(&ActionStatistics) -> Option<f64>| -> Option<f64> {
            outermost().map(pick).sum()
        };
        let most = rows.iter().max_by(|one, other| one.self_seconds.total_cmp(&other.self_seconds));
        let name = |row: &&ActionStatistics| text::name(&row.label(), part.limits.name);
        let share = own / wall / thread.threads.max(1) as f64;
        table.row([
            text::escape(&title(&thread.thread, thread.threads)).into(),
            own.into(),
            share.is_finite().then_some(share).into(),
            sum(|row| row.cpu.map(|cpu| cpu.thread_seconds)).into(),
            sum(ActionStatistics::waiting_seconds).into(),
            rows.iter().map(|row| row.calls).sum::<u64>().into(),
            most.map_or_else(String::new, name).into(),
            Cell::from(most.map(|row| row.self_seconds)),
            waited_most(&nested).map_or_else(String::new, |row| name(&row)).into(),
        ]);
    }
    table.write(html, "What each thread did");
}

/// The same of what was recorded, `seconds` in all.
pub(super) fn write_recorded(
    html: &mut String,
    threads: &[RecordedThread],
    seconds: Option<f64>,
    part: &Part,
) {
    let mut table = Table::new([
        Column::new("Thread", Unit::Text, "Its name, and how many have it"),
        Column::new("In scopes", Unit::Seconds, "Its outermost scopes together").bar(),
        Column::new("Share", Unit::Share, "Of the recorded time, by the number of threads"),
        Column::new("Events", Unit::Count, "Ops, actions and other scopes"),
    ])
    .sorted_by(1);
    for row in threads.iter().take(part.limits.rows) {
        let share = seconds.map(|all| row.seconds / all / row.threads.max(1) as f64);
        table.row([
            text::name(&title(&row.thread, row.threads), part.limits.name).into(),
            row.seconds.into(),
            share.filter(|share| share.is_finite()).into(),
            row.events.into(),
        ]);
    }
    if !table.is_empty() {
        part.heading(html, "threads", "Threads");
        table.write(html, "What each thread recorded");
    }
}

/// `worker`, or `worker (3 threads)`.
pub(super) fn title(name: &str, threads: u64) -> String {
    let name = crate::label::shown(name);
    if threads > 1 {
        format!("Thread {name} ({threads} threads)")
    } else {
        format!("Thread {name}")
    }
}

fn own_seconds(thread: &ThreadStatistics) -> f64 {
    thread.actions.iter().map(|row| row.self_seconds).sum()
}

/// The row whose waiting is least that of a row inside of it.
fn waited_most<'rows>(
    nested: &[(usize, &'rows ActionStatistics)],
) -> Option<&'rows ActionStatistics> {
    let mut most: Option<(f64, &ActionStatistics)> = None;
    for (place, (depth, row)) in nested.iter().enumerate() {
        let Some(waiting) = row.waiting_seconds() else { continue };
        let behind = nested[place + 1..].iter().take_while(|(inner, _)| inner > depth);
        let direct = behind.filter(|(inner, _)| *inner == depth + 1);
        let inside: f64 = direct.filter_map(|(_, row)| row.waiting_seconds()).sum();
        let own = waiting - inside;
        if own > 0.0 && most.is_none_or(|(most, _)| own > most) {
            most = Some((own, row));
        }
    }
    most.map(|(_, row)| row)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::page::limits::Limits;
    use crate::simple::CpuStatistics;

    fn row(action: &str, inside: Option<&str>, [total, own, cpu]: [f64; 3]) -> ActionStatistics {
        ActionStatistics {
            inside: inside.map(str::to_owned),
            self_seconds: own,
            cpu: Some(CpuStatistics { thread_seconds: cpu, ..CpuStatistics::default() }),
            ..crate::findings::samples::row(action, 2, total)
        }
    }

    #[test]
    fn a_thread_has_what_it_did_and_where_it_waited() {
        let thread = |name: &str, threads, actions| ThreadStatistics {
            thread: name.to_owned(),
            threads,
            actions,
        };
        let main = vec![
            row("batch", None, [8.0, 1.0, 5.0]),
            row("load", Some("batch"), [3.0, 3.0, 0.5]),
            row("step", Some("batch"), [4.0, 4.0, 3.9]),
        ];
        let threads = [
            thread("worker<1>", 2, vec![row("decode", None, [2.0, 2.0, 2.0])]),
            thread("main", 1, main),
        ];
        let mut html = String::new();
        write(&mut html, &threads, 10.0, &Part { index: 0, limits: Limits::FIRST });
        let row = |name: &str| {
            let (_, row) = html.split_once(name).expect("a row");
            row.split("<tr>").next().expect("its cells").to_owned()
        };
        let main = row("<th scope=row>Thread main");
        for part in ["8.00 s", "80.0 %", "5.00 s", "3.00 s", "<td>step<td", "4.00 s", "<td>load"] {
            assert!(main.contains(part), "{part}: {main}");
        }
        let worker = row("<th scope=row>Thread worker&lt;1&gt; (2 threads)");
        assert!(worker.contains("10.0 %") && worker.contains("<td>decode<td"), "{worker}");
        assert!(html.find("main") < html.find("worker"), "the busiest comes first");
    }

    #[test]
    fn recorded_threads_have_their_share() {
        let thread = |thread: &str, threads, seconds| RecordedThread {
            thread: thread.to_owned(),
            threads,
            events: 7,
            seconds,
        };
        let threads = [thread("main", 1, 1.5), thread("worker<1>", 2, 1.0)];
        let part = Part { index: 0, limits: Limits::FIRST };
        let mut html = String::new();
        write_recorded(&mut html, &threads, Some(2.0), &part);
        let row = "<th scope=row>Thread worker&lt;1&gt; (2 threads)<td class=\"n b33\" data-v=1>1.00 s\
                   <td class=n data-v=0.25>25.0 %<td class=n>7";
        assert!(html.contains("id=r0-threads") && html.contains(row), "{html}");
        html.clear();
        write_recorded(&mut html, &[], None, &part);
        assert_eq!(html, "");
    }
}
