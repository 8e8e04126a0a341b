use mlprof_macros::profiled;

#[profiled]
struct Net;

trait Forward {
    #[profiled]
    fn forward(&self);
}

#[profiled]
mod layers {}

fn main() {
    let _: fn(&dyn Forward) = |_| ();
    let _ = Net;
}
