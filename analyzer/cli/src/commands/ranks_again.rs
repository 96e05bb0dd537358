//! Reads captures of ranks again, to find the exact step since which ranks differ.

use std::sync::{Mutex, PoisonError};

use gpumem_analyzer::ask::CaptureFile;
use gpumem_analyzer::ranks::{Job, Question, StepWatch, Steps};
use gpumem_analyzer::replay::Query;

use super::each::each;

/// Answers the job's questions from its captures. Answers that need an unreadable capture are left
/// out.
pub fn find_steps(job: &mut Job) {
    let questions = job.questions();
    let answers = Mutex::new(Vec::with_capacity(questions.len()));
    each(&questions, "searching for steps", |question| {
        if let Some(steps) = steps(question) {
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.push((question.clone(), steps));
        }
    });
    let answers = answers.into_inner();
    job.answer(&answers.unwrap_or_else(PoisonError::into_inner));
}

fn steps(question: &Question) -> Option<Vec<Steps>> {
    let mut watch = StepWatch::keeping(question.device, &question.windows);
    let mut capture = CaptureFile::open(&question.file).ok()?;
    let read = capture.read_with(Query::default(), &mut |replay, record, _| {
        watch.observe(replay, &record);
    });
    read.is_ok().then(|| watch.kept())
}
