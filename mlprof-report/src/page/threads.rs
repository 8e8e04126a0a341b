//! HTML of the threads: their work and their waiting time.

use super::Part;
use super::nesting::nested;
use crate::simple::{ActionStatistics, ThreadStatistics};
use crate::table::{count, seconds, share, table, words};
use crate::tensor::RecordedThread;

/// Writes a row per thread, or per name that several threads share.
pub(super) fn write(html: &mut String, threads: &[ThreadStatistics], wall: f64, part: &Part) {
    let mut threads: Vec<_> = threads.iter().map(|thread| (own_seconds(thread), thread)).collect();
    threads.sort_by(|one, other| other.0.total_cmp(&one.0));
    let table = table!("Activity of each thread", threads, |(own, thread)| {
        let rows = thread.actions.iter().collect::<Vec<_>>();
        let nested = nested(&rows);
        let outermost = || nested.iter().filter(|(depth, _)| *depth == 0).map(|(_, row)| *row);
        let cpu = outermost().map(|row| row.cpu.map(|cpu| cpu.thread_seconds)).sum::<Option<f64>>();
        let waiting = outermost().map(ActionStatistics::waiting_seconds).sum::<Option<f64>>();
        let most = rows.iter().max_by(|one, other| one.self_seconds.total_cmp(&other.self_seconds));
        let part = own / wall / thread.threads.max(1) as f64;
        words("Thread", "Name of the thread, and number of threads with it").key() =>
            title(&thread.thread, thread.threads),
        seconds("In actions", "Sum of the self times of its actions").bar() => own,
        share("Share", "Share of the wall time, divided by the number of threads") =>
            part.is_finite().then_some(part),
        seconds("CPU", "CPU time in its outermost actions").bar() => cpu,
        seconds("Waiting", "Remaining time of these actions: other threads, files, locks, a core").bar() => waiting,
        count("Calls", "Number of calls of all its actions") => rows.iter().map(|row| row.calls).sum::<u64>(),
        words("Most in", "Action with the most self time") =>
            most.map_or_else(String::new, |row| row.label()),
        seconds("Of that", "Self time of this action") => most.map(|row| row.self_seconds),
        words("Waited most in", "The innermost action that waited the most") =>
            waited_most(&nested).map_or_else(String::new, ActionStatistics::label),
    });
    table.sorted_by("In actions").write(html, part.limits);
}

/// Writes the recorded scopes of each thread. `seconds_of_all` is the total recorded time.
pub(super) fn write_recorded(
    html: &mut String,
    threads: &[RecordedThread],
    seconds_of_all: Option<f64>,
    part: &Part,
) {
    let table = table!("What each thread recorded", threads, |row| {
        let part = seconds_of_all.map(|all| row.seconds / all / row.threads.max(1) as f64);
        words("Thread", "Name of the thread, and number of threads with it") => title(&row.thread, row.threads),
        seconds("In scopes", "Its outermost scopes together").bar() => row.seconds,
        share("Share", "Of the recorded time, by the number of threads") =>
            part.filter(|part| part.is_finite()),
        count("Events", "Number of ops, actions and other scopes") => row.events,
    });
    if !table.is_empty() {
        part.heading(html, "threads", "Threads");
        table.sorted_by("In scopes").write(html, part.limits);
    }
}

/// Returns a title such as `Thread worker`, or `Thread worker (3 threads)`.
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

/// Returns the row with the longest waiting time, without the waiting time of its nested rows.
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
