//! `fuzz_seeds FOLDER`: creates the seeds of the fuzz targets from the committed captures: a folder for each
//! target.

use std::path::Path;

use gpumem_capture::fuzzing::{names_seed, page_seed, ring_seed};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let to = std::env::args_os()
        .nth(1)
        .ok_or("usage: fuzz_seeds FOLDER")?;
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/captures/v1");
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let (Some(name), true) = (path.file_stem(), path.extension() == Some("bin".as_ref()))
        else {
            continue;
        };
        let capture = std::fs::read(&path)?;
        for (target, seed) in [
            ("page", page_seed(&capture)),
            ("ring", ring_seed(&capture)),
            ("names", names_seed(&capture)),
            ("file", capture),
        ] {
            let folder = Path::new(&to).join(target);
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join(name), seed)?;
        }
    }
    Ok(())
}
