//! Modules and libraries of kernels, and launches.

use crate::model::Ended;
use crate::pass::{LaunchConfig, Made, Private};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "module",
    weight: 8,
    step,
    ended,
    end,
};

/// Any image works, because the simulator does not read it: the header of a fat binary without
/// content.
static IMAGE: [u32; 8] = [0xba55_ed50, 0x0010_0001, 0, 0, 0, 0, 0, 0];

fn image() -> Private<usize> {
    Private(IMAGE.as_ptr() as usize)
}

fn text(text: &'static std::ffi::CStr) -> Private<usize> {
    Private(text.as_ptr() as usize)
}

fn step(world: &mut World) {
    match world.rng.below(20) {
        0..4 => load_module(world),
        4..7 => load_library(world),
        7..9 => {
            if let Some(place) = world.rng.find(&world.modules.modules, |_| true) {
                let (module, _) = world.modules.modules.swap_remove(place);
                unload_module(world, module);
            }
        }
        9..11 => {
            if let Some(place) = world.rng.find(&world.modules.libraries, |_| true) {
                let library = world.modules.libraries.swap_remove(place);
                unload_library(world, library);
            }
        }
        11..14 => functions(world),
        14..18 => launch(world),
        18 => variable(world),
        _ => wrong(world),
    }
}

fn load_module(world: &mut World) {
    if world.modules.modules.len() >= 6 {
        return;
    }
    let mut module = 0;
    let place = Some(&mut module);
    let code = match world.rng.below(4) {
        0 => world.cuda.cuModuleLoadData(place, image()),
        1 => world.cuda.cuModuleLoadDataEx(place, image(), 0, 0, 0),
        2 => world.cuda.cuModuleLoadFatBinary(place, image()),
        _ => world.cuda.cuModuleLoad(place, text(c"/proc/self/exe")),
    };
    if code == 0 {
        let owner = world.owner();
        world.modules.modules.push((module, owner));
    }
}

fn load_library(world: &mut World) {
    if world.modules.libraries.len() >= 6 {
        return;
    }
    let mut library = 0;
    let place = Some(&mut library);
    let code = if world.rng.percent(60) {
        world
            .cuda
            .cuLibraryLoadData(place, image(), 0, 0, 0, 0, 0, 0)
    } else {
        let path = text(c"/proc/self/exe");
        world
            .cuda
            .cuLibraryLoadFromFile(place, path, 0, 0, 0, 0, 0, 0)
    };
    if code == 0 {
        world.modules.libraries.push(library);
    }
}

fn unload_module(world: &mut World, module: usize) {
    let code = world.cuda.cuModuleUnload(module);
    world.expect(code);
    forget(world, module);
}

fn unload_library(world: &mut World, library: usize) {
    let code = world.cuda.cuLibraryUnload(library);
    world.expect(code);
    forget(world, library);
}

fn forget(world: &mut World, gone: usize) {
    world.modules.gone.push(gone);
    world.modules.functions.retain(|(_, of)| *of != gone);
}

fn functions(world: &mut World) {
    let mut function = 0;
    if world.rng.percent(50) {
        if let Some((module, _)) = world.rng.pick(&world.modules.modules)
            && world
                .cuda
                .cuModuleGetFunction(Some(&mut function), module, text(c"kernel"))
                == 0
        {
            world.modules.functions.push((function, module));
        }
    } else if let Some(library) = world.rng.pick(&world.modules.libraries) {
        let mut kernel = 0;
        let code = world
            .cuda
            .cuLibraryGetKernel(Some(&mut kernel), library, text(c"kernel"));
        if code == 0 {
            world.modules.functions.push((kernel, library));
            if world.rng.percent(50) {
                world.cuda.cuKernelGetFunction(Some(&mut function), kernel);
            } else {
                let mut module = 0;
                world.cuda.cuLibraryGetModule(Some(&mut module), library);
            }
        }
    }
}

/// A variable gets its memory when its address is first requested.
fn variable(world: &mut World) {
    let (mut pointer, mut bytes) = (Made(0), 0);
    let (place, size, name) = (Some(&mut pointer), Some(&mut bytes), text(c"variable"));
    let library = world.rng.pick(&world.modules.libraries);
    match (world.rng.below(3), library) {
        (0, Some(library)) => {
            world.cuda.cuLibraryGetGlobal(place, size, library, name);
        }
        (1, Some(library)) => {
            world.cuda.cuLibraryGetManaged(place, size, library, name);
        }
        _ => {
            if let Some((module, _)) = world.rng.pick(&world.modules.modules) {
                world.cuda.cuModuleGetGlobal_v2(place, size, module, name);
            }
        }
    }
}

fn launch(world: &mut World) {
    if world.modules.functions.is_empty() && !world.rng.percent(5) {
        return functions(world);
    }
    let known = world.rng.pick(&world.modules.functions);
    let function = known.map_or(0x10, |(function, _)| function);
    let blocks = world.rng.pick(&[1, 1, 2, 2, 0]).unwrap_or(1);
    let config = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [32, 1, 1],
        ..LaunchConfig::default()
    };
    let cuda = &mut world.cuda;
    match world.rng.below(7) {
        0 => cuda.cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, 0, 0, 0),
        1 => cuda.cuLaunchKernel_ptsz(function, blocks, 1, 1, 32, 1, 1, 0, 0, 0, 0),
        2 => cuda.cuLaunchKernelEx(Some(&config), function, 0, 0),
        3 => cuda.cuLaunchKernelEx_ptsz(Some(&config), function, 0, 0),
        4 => cuda.cuLaunchCooperativeKernel(function, blocks, 1, 1, 32, 1, 1, 0, 0, 0),
        5 => cuda.cuLaunchCooperativeKernel_ptsz(function, blocks, 1, 1, 32, 1, 1, 0, 0, 0),
        _ => cuda.cuFuncLoad(function),
    };
}

fn wrong(world: &mut World) {
    let gone = world.rng.pick(&world.modules.gone).unwrap_or(0x10);
    let mut module = 0;
    match world.rng.below(4) {
        0 => world.cuda.cuModuleUnload(gone),
        1 => world.cuda.cuLibraryUnload(gone),
        2 => world.cuda.cuModuleLoadData(Some(&mut module), Private(0)),
        _ => world
            .cuda
            .cuModuleLoad(Some(&mut module), text(c"/no/such/file")),
    };
}

fn ended(world: &mut World, ended: &Ended) {
    let modules = std::mem::take(&mut world.modules.modules);
    for (module, owner) in modules {
        if ended.takes(owner) {
            forget(world, module);
        } else {
            world.modules.modules.push((module, owner));
        }
    }
}

fn end(world: &mut World) {
    for library in std::mem::take(&mut world.modules.libraries) {
        unload_library(world, library);
    }
    let all = !world.alone || world.rng.percent(40);
    for (module, owner) in std::mem::take(&mut world.modules.modules) {
        if all {
            unload_module(world, module);
        } else {
            world.modules.modules.push((module, owner));
        }
    }
    world.modules.gone.clear();
}
