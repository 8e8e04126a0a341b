//! Tests that clients are served one after the other, and that clients of a parent process are not
//! served.

use std::sync::mpsc::{Receiver, channel};

use super::*;

fn record(watcher: &Watcher, requester: Requester) -> Result<(u64, Receiver<News>), Busy> {
    let (sender, news) = channel();
    let wishes = RecordRequest { steps: Some(1), first_step: Some(1 << 40), ..Default::default() };
    watcher.record(wishes, requester, sender).map(|number| (number, news))
}

#[test]
fn the_user_cancels_whatever_waits_and_comes_first() {
    let watcher = Watcher::new(|| {});
    let command = Requester::Command { process: Some(7) };
    assert_eq!(watcher.cancel_any(), None);
    let (_, news) = record(&watcher, Requester::Capture).expect("nothing else is recorded");
    let busy = record(&watcher, command).expect_err("it is");
    assert!(matches!(busy, Busy::UnderWay { requester: Requester::Capture, has_begun: false, .. }));
    let told = watcher.cancel_any().expect("it waits");
    assert!(told.starts_with("requested by TensorBoard or XProf"), "{told}");
    let Ok(News::Over(notes, None)) = news.recv() else { panic!("it is over") };
    assert_eq!(notes, ["the user cancelled the recording"]);
    for other in [Requester::Capture, Requester::Dynolog] {
        assert!(matches!(record(&watcher, other), Err(Busy::Reserved { .. })), "{other}");
    }
    record(&watcher, command).map(drop).expect("whoever cancelled");
    watcher.cancel_any().expect("the user's own");
}

/// A client follows and records the child before its first stage begins.
#[test]
fn a_forked_child_does_nothing_for_its_parents_clients() {
    let watcher = Arc::new(Watcher::new(|| {}));
    let following = watcher.follow_actions();
    let recording = record(&watcher, Requester::Dynolog).expect("nothing else is recorded");
    // The changed process id simulates a forked child, in which the clients' threads do not exist.
    watcher.control().process += 1;
    drop(watcher.follow_actions());
    assert!(watcher.followed.tallies().is_none(), "the last one has gone");
    assert_eq!(watcher.control().followers, 0);
    record(&watcher, Requester::Dynolog).map(drop).expect("the parent's recording is the parent's");
    std::mem::forget((following, recording));
}
