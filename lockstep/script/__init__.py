"""What the user's script is and hands over: its lines, its Keras, the variables and objects that it holds."""
