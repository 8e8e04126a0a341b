//! Verdict on slow ranks by their hosts and devices, and the reasons for missing verdicts.

use mlprof_report::ranks::{FEWEST_STEPS, StageTable, Straggler, stragglers};

#[derive(Debug, Default)]
pub(super) struct Judgement {
    pub(super) stragglers: Vec<Straggler>,
    pub(super) not_judged: Vec<String>,
}

impl Judgement {
    /// Judges ranks by the host and device times of the steps that all ranks have.
    ///
    /// `has_devices` is `true` if any trace has device work.
    pub(super) fn of(hosts: &StageTable, devices: Option<&StageTable>, has_devices: bool) -> Self {
        let mut judgement = Self::default();
        if hosts.ranks.len() < 2 {
            judgement
                .not_judged
                .push("slow ranks were not detected: that needs at least two ranks".to_owned());
            return judgement;
        }
        if hosts.steps.len() < FEWEST_STEPS {
            judgement.not_judged.push(format!(
                "slow ranks were not detected: that needs at least {FEWEST_STEPS} common steps of all ranks"
            ));
            return judgement;
        }
        judgement.stragglers = stragglers(hosts);
        match devices {
            Some(devices) => judgement.add(stragglers(devices)),
            None if has_devices => judgement.not_judged.push(
                "slow devices were not detected: the traces of some ranks have no device work"
                    .to_owned(),
            ),
            None => {}
        }
        // Device times show which rank is slow even if hosts wait for each other inside their
        // libraries.
        if devices.is_none() && !hosts.has_waits() {
            judgement.not_judged.push(
                "slow hosts were detected only by whole steps: the traces do not show when ranks \
                 wait, so waiting ranks also look slow"
                    .to_owned(),
            );
        }
        judgement
    }

    /// Adds ranks whose devices are slow. If a rank is slow by host and device, the larger relative
    /// time stays, because a host that waits for its slow device is slow too.
    fn add(&mut self, of_devices: Vec<Straggler>) {
        let share = |slow: &Straggler| slow.own_ns as f64 / slow.usual_ns.max(1) as f64;
        for slow in of_devices {
            match self.stragglers.iter_mut().find(|host| host.rank == slow.rank) {
                Some(host) if share(host) < share(&slow) => *host = slow,
                Some(_) => {}
                None => self.stragglers.push(slow),
            }
        }
        let longer = |slow: &Straggler| slow.own_ns.saturating_sub(slow.usual_ns);
        self.stragglers.sort_by_key(|slow| (std::cmp::Reverse(longer(slow)), slow.rank));
    }
}
