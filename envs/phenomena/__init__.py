"""The phenomena: one module is one way in which a world changes under an agent."""
