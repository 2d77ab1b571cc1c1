//! The program.

fn main() -> std::process::ExitCode {
    global_dns::main()
}
