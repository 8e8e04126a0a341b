use mlprof_macros::profile;

#[profile]
struct Net;

trait Forward {
    #[profile]
    fn forward(&self);
}

#[profile]
mod layers {}

fn main() {
    let _: fn(&dyn Forward) = |_| ();
    let _ = Net;
}
