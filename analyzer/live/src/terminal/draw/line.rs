//! One line of the screen.

use ratatui::Frame as Screen;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

pub(super) fn line(screen: &mut Screen<'_>, at: Rect, line: Line<'_>) {
    screen.render_widget(Paragraph::new(line), at);
}
