// Begins.

view.draw.choices();
connect();
