// Begins.

view.draw.choices();
connect();
addEventListener("resize", () => { if (shown.course) view.draw.course(); });
