//! Draws memory over time.

use gpumem_analyzer::ranks::Part;
use gpumem_analyzer::render::bytes;
use ratatui::Frame as Screen;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::frames::Frame;

use super::super::app::App;
use super::super::chart::Chart;
use super::super::style::Look;
use super::line::line;

pub(super) fn draw_chart(
    screen: &mut Screen<'_>,
    area: Rect,
    frame: &Frame,
    app: &mut App,
    look: Look,
) {
    let shown = app.ask.device.or(frame.devices.first().map(|on| on.device));
    // While the past is shown, memory over time continues to the newest frame.
    let newest = app.newest.clone().filter(|_| app.spot.is_some());
    let newest = newest.as_deref().unwrap_or(frame);
    let course = newest
        .course
        .iter()
        .find(|(device, _)| Some(*device) == shown);
    app.chart = area;
    let Some((device, course)) = course else {
        return;
    };
    let chart = Chart::of(course, newest.started_wall_ns, usize::from(area.width));
    app.axis = chart.axis;
    let marked = app.spot.as_ref().map(|spot| {
        let last = chart.columns.len().saturating_sub(1);
        chart.axis.column(spot.time).unwrap_or(last)
    });
    for row in 0..area.height {
        let cells =
            (0..chart.columns.len()).map(|column| match chart.cell(column, row, area.height) {
                _ if marked == Some(column) => Span::styled(look.marker(), look.marked()),
                None => Span::raw(" "),
                Some(part) => {
                    let (style, fill) = look.part(part);
                    Span::styled(fill.to_string(), style)
                }
            });
        let at = Rect {
            y: area.y + row,
            height: 1,
            ..area
        };
        line(screen, at, Line::from(cells.collect::<Vec<_>>()));
    }
    let mut key = vec![Span::styled(
        format!("{} ", bytes(chart.most)),
        look.strong(),
    )];
    for part in Part::ALL {
        let (style, fill) = look.part(part);
        key.push(Span::styled(fill.to_string(), style));
        key.push(Span::raw(format!(" {} ", part.word())));
    }
    key.push(Span::raw(format!("on GPU {}", device.0)));
    let line = Line::from(key);
    let width = (line.width() as u16).min(area.width);
    let corner = Rect {
        x: area.right() - width,
        width,
        height: 1,
        ..area
    };
    screen.render_widget(Paragraph::new(line), corner);
}
