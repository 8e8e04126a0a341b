//! Sets `burn_0_23` for the sources, which are shared with mlprof-burn.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(burn_0_23)");
    println!("cargo::rustc-cfg=burn_0_23");
}
